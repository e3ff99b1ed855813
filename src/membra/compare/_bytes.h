/* One query against one group of 16 bags in int8 products (AVX512-VNNI). _bounds.c includes this once; bounds.py
 * documents the layout. VNNI is defined where it can be compiled.
 */

/* A query in int8: prototype i is about step * (the bytes of quads[.][i]). */
struct bytes {
    const int32_t *quads; /* [quads of coordinates][stride]: four signed bytes together */
    const float *norms;   /* [prototypes] half squared norms of the unrounded prototypes */
    const float *offs;    /* [prototypes] norm of the rounding error */
    const int32_t *sums;  /* [prototypes] 128 times the sum of its bytes: those of bags are stored with 128 added */
    int32_t *own, *kept;  /* [stride][16], scratch memory */
    int64_t stride, count;
    int prototypes, block;
    float step, longest; /* longest: of the rounded prototypes */
};

struct group {
    const uint8_t *tiles; /* [slots][quads][16][4] bytes, 128 added */
    const float *norms;   /* [slots][16] half squared norms of the unrounded prototypes; infinite where there is none */
    const float *steps;   /* [16] quantisation step of each bag */
    const float *offs;    /* [16] largest norm of the rounding error of a prototype of each bag */
    const int32_t *counts;
    int64_t slots;
};

#if defined(X86) && (__GNUC__ >= 9 || __clang_major__ >= 8)
#define VNNI 1
#define BLOCK 24
#define LIMIT 0x1p28f       /* upper bound of a norm in units of products; a smaller norm gives a lower bound, too */
#define ABSENT (1 << 29)    /* the norm of an absent prototype */
#define VNNI_TARGET __attribute__((target("avx512f,avx512bw,avx512vnni")))

/* Rounds down to integers. */
VNNI_TARGET static inline __m512i whole(__m512 value) {
    return _mm512_cvt_roundps_epi32(
        _mm512_min_ps(value, _mm512_set1_ps(LIMIT)), _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
VNNI_TARGET static inline __m512 root(__m512i halves, __m512 unit) {
    const __m512 value = _mm512_cvtepi32_ps(_mm512_max_epi32(halves, _mm512_setzero_si512()));
    return _mm512_sqrt_ps(_mm512_mul_ps(_mm512_add_ps(value, value), unit));
}

/* With q = q' + e and p = p' + f, where q' and p' are the rounded prototypes, half the squared distance is
 *     |q|^2/2 + |p|^2/2 - q.p  >=  (|q|^2/2 - |e||p|) + (|p|^2/2 - |q'||f|) - q'.p'
 * and, divided by the product of the two steps, the last term is an integer. Both brackets are rounded down to
 * integers, too, and all is computed in integers: a sum starts at minus the second bracket, and the largest sum is the
 * nearest. */
static inline VNNI_TARGET __attribute__((always_inline)) void sweep(
    const int n, const struct bytes *query, const struct group *group, float *found) {
    const __m512 steps = _mm512_mul_ps(_mm512_loadu_ps(group->steps), _mm512_set1_ps(query->step));
    /* Bags with steps too small for a division get the bound 0. */
    const __mmask16 sound = _mm512_cmp_ps_mask(steps, _mm512_set1_ps(1e-30f), _CMP_GE_OQ);
    const __m512 unit = _mm512_mask_blend_ps(sound, _mm512_set1_ps(1.0f), steps);
    const __m512 inverse = _mm512_div_ps(_mm512_set1_ps(1.0f), unit);
    const __m512 infinite = _mm512_set1_ps(HUGE_VALF);
    __m512 longest = _mm512_setzero_ps();
    for (int64_t slot = 0; slot < group->slots; slot++) {
        const __m512 norm = _mm512_loadu_ps(group->norms + slot * LANES);
        longest = _mm512_mask_max_ps(longest, _mm512_cmp_ps_mask(norm, infinite, _CMP_LT_OQ), longest, norm);
    }
    longest = _mm512_sqrt_ps(_mm512_add_ps(longest, longest));
    int32_t *own = query->own, *kept = query->kept;
    for (int i = 0; i < query->stride; i++) {
        __m512i norm = _mm512_set1_epi32(ABSENT);
        if (i < query->prototypes) {
            const __m512 less = _mm512_mul_ps(longest, _mm512_set1_ps(query->offs[i] * (1 + MARGIN)));
            const __m512 value = _mm512_sub_ps(_mm512_set1_ps(query->norms[i] * (1 - MARGIN)), less);
            norm = _mm512_add_epi32(whole(_mm512_mul_ps(value, inverse)), _mm512_set1_epi32(query->sums[i]));
        }
        _mm512_storeu_si512(own + i * LANES, norm);
        _mm512_storeu_si512(kept + i * LANES, _mm512_set1_epi32(-ABSENT - ABSENT));
    }
    const __m512 less = _mm512_mul_ps(_mm512_loadu_ps(group->offs), _mm512_set1_ps(query->longest * (1 + MARGIN)));
    __m512 total = _mm512_setzero_ps();
    for (int64_t slot = 0; slot < group->slots; slot++) {
        const __m512 norm = _mm512_loadu_ps(group->norms + slot * LANES);
        const __mmask16 there = _mm512_cmp_ps_mask(norm, infinite, _CMP_LT_OQ);
        const __m512 value = _mm512_fmsub_ps(norm, _mm512_set1_ps(1 - MARGIN), less);
        const __m512i start = _mm512_sub_epi32(
            _mm512_setzero_si512(),
            _mm512_mask_blend_epi32(there, _mm512_set1_epi32(ABSENT), whole(_mm512_mul_ps(value, inverse))));
        const uint8_t *tile = group->tiles + slot * query->count * LANES * 4;
        __m512i close = _mm512_set1_epi32(INT32_MIN);
        for (int first = 0; first < query->stride; first += n) {
            __m512i sum[BLOCK];
#pragma GCC unroll 32
            for (int i = 0; i < n; i++) sum[i] = start;
            const int32_t *prototypes = query->quads + first;
            for (int64_t t = 0; t < query->count; t++, prototypes += query->stride) {
                const __m512i page = _mm512_loadu_si512(tile + t * LANES * 4);
                /* With the intrinsic, compilers copy the sums between registers, at half the speed. */
#pragma GCC unroll 32
                for (int i = 0; i < n; i++)
                    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum[i]) : "v"(page), "m"(prototypes[i]));
            }
#pragma GCC unroll 32
            for (int i = 0; i < n; i++) {
                int32_t *most = kept + (first + i) * LANES;
                _mm512_storeu_si512(most, _mm512_max_epi32(_mm512_loadu_si512(most), sum[i]));
                const __m512i norms = _mm512_loadu_si512(own + (first + i) * LANES);
                close = _mm512_max_epi32(close, _mm512_sub_epi32(sum[i], norms));
            }
        }
        total = _mm512_mask_add_ps(total, there, total, root(_mm512_sub_epi32(_mm512_setzero_si512(), close), unit));
    }
    __m512 forward = _mm512_setzero_ps();
    for (int i = 0; i < query->prototypes; i++) {
        const __m512i norm = _mm512_loadu_si512(own + i * LANES), most = _mm512_loadu_si512(kept + i * LANES);
        forward = _mm512_add_ps(forward, root(_mm512_sub_epi32(norm, most), unit));
    }
    const __m512i counts = _mm512_max_epi32(_mm512_loadu_si512(group->counts), _mm512_set1_epi32(1));
    const __m512 sum = _mm512_add_ps(
        _mm512_div_ps(forward, _mm512_set1_ps((float)query->prototypes)),
        _mm512_div_ps(total, _mm512_cvtepi32_ps(counts)));
    const float terms = (float)(query->prototypes + group->slots + 64);
    _mm512_storeu_ps(found, _mm512_maskz_mul_ps(sound, sum, _mm512_set1_ps(0.5f - terms * 0x1p-24f)));
}

static VNNI_TARGET void compare(const struct bytes *query, const struct group *group, float *found) {
    switch (query->block) {
#define CASE(n) \
    case n: \
        sweep(n, query, group, found); \
        break;
        CASE(2) CASE(4) CASE(6) CASE(8) CASE(10) CASE(12) CASE(14) CASE(16) CASE(18) CASE(20) CASE(22) CASE(24)
#undef CASE
    }
}

static int has_bytes(void) {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512bw");
}

/* Rounds the prototypes [count][d] of one query to int8. False: out of memory. */
static int set_bytes(struct bytes *query, const float *prototypes, int64_t count, int64_t d) {
    const int64_t blocks = (count + BLOCK - 1) / BLOCK, quads = (d + 3) / 4;
    const int64_t block = (count + blocks - 1) / blocks;
    query->prototypes = (int)count;
    query->block = (int)(block + block % 2); /* even numbers only: half the code */
    query->stride = blocks * query->block;
    query->count = quads;
    const int64_t stride = query->stride;
    int32_t *memory = zeros(stride * (quads + 3 + 2 * LANES));
    if (!memory) return 0;
    query->own = memory;
    query->kept = query->own + stride * LANES;
    int32_t *bytes = query->kept + stride * LANES;
    float *norms = (float *)(bytes + stride * quads), *offs = norms + stride;
    int32_t *sums = (int32_t *)(offs + stride);
    float largest = 0;
    for (int64_t i = 0; i < count * d; i++) largest = fmaxf(largest, fabsf(prototypes[i]));
    query->step = largest > 0 ? largest / 127 : 1.0f;
    double longest = 0;
    for (int64_t i = 0; i < count; i++) {
        double norm = 0, off = 0, length = 0;
        for (int64_t t = 0; t < d; t++) {
            const double value = prototypes[i * d + t];
            const int byte = (int)fmax(-127, fmin(127, nearbyint(value / query->step)));
            const double rounded = (double)byte * query->step;
            ((int8_t *)(bytes + t / 4 * stride + i))[t % 4] = (int8_t)byte;
            sums[i] += 128 * byte;
            norm += value * value;
            off += (value - rounded) * (value - rounded);
            length += rounded * rounded;
        }
        norms[i] = (float)(norm / 2);
        offs[i] = (float)sqrt(off);
        longest = fmax(longest, sqrt(length));
    }
    query->longest = (float)longest;
    query->quads = bytes;
    query->norms = norms;
    query->offs = offs;
    query->sums = sums;
    return 1;
}
#endif
