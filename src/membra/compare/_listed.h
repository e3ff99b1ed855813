/* One query against one listed bag in int8 products (AVX512-VNNI): like row_bound in _rows.h, with a quarter of the
 * products and of the bytes. _bounds.c includes this once.
 *
 * The bound is the triangle inequality: |q - p| >= |q' - p'| - |e| - |f|, where q' and p' are the rounded prototypes,
 * and e and f their rounding errors. Of p it needs only its bytes, its step and the largest |f| of its bag.
 */

struct byte_lanes {
    const uint8_t *tile;  /* [quads][stride][4] the query's prototypes side by side in lanes, 128 added */
    const float *norms;   /* [stride] |q'|^2 / 2; infinite for lanes without a prototype */
    float *nearest;       /* [stride], scratch memory */
    int64_t prototypes, stride, quads;
    float step, off;      /* off: largest norm of the rounding error of a prototype of the query */
};

#if defined(VNNI)
#define LISTED 8 /* prototypes of the bag whose sums are held in registers at once */

/* Lays out the prototypes [count][d] of one query in lanes. False: out of memory; else the caller frees `nearest`. It
 * runs once per call, so it must be fast: no division and no function call within the loop. */
static VNNI_TARGET int set_byte_lanes(struct byte_lanes *query, const float *prototypes, int64_t count, int64_t d) {
    const int64_t stride = (count + LANES - 1) / LANES * LANES, quads = (d + 3) / 4;
    float *memory = zeros(stride * (quads + 2));
    if (!memory) return 0;
    float *norms = memory + stride;
    uint8_t *tile = (uint8_t *)(norms + stride);
    memset(tile, 128, (size_t)(stride * quads * 4));
    float largest = 0;
    for (int64_t i = 0; i < count * d; i++) largest = fabsf(prototypes[i]) > largest ? fabsf(prototypes[i]) : largest;
    const float step = largest > 0 ? fmaxf(largest / 127, FLT_MIN) : 1.0f;
    const double inverse = 1 / (double)step;
    double furthest = 0;
    for (int64_t i = 0; i < stride; i++) {
        double norm = 0, off = 0;
        for (int64_t t = 0; i < count && t < d; t++) {
            const double value = prototypes[i * d + t], whole = rint(value * inverse);
            const double byte = whole > 127 ? 127 : whole < -127 ? -127 : whole, rest = value - byte * step;
            tile[(t / 4 * stride + i) * 4 + t % 4] = (uint8_t)((int)byte + 128);
            norm += byte * byte;
            off += rest * rest;
        }
        norms[i] = i < count ? (float)(norm * step * step / 2) : HUGE_VALF;
        furthest = off > furthest ? off : furthest;
    }
    *query = (struct byte_lanes){tile, norms, memory, count, stride, quads, step, (float)sqrt(furthest)};
    return 1;
}

static VNNI_TARGET float listed_bound(
    const struct byte_lanes *query, const int8_t *prototypes, int64_t count, float step, float off) {
    const int64_t quads = query->quads, stride = query->stride;
    const float unit = step * query->step;
    if (unit < 1e-30f) return 0; /* smaller products would lose digits that the bound needs */
    for (int64_t i = 0; i < stride; i++) query->nearest[i] = HUGE_VALF;
    const __m512i ones = _mm512_set1_epi8(1);
    float total = 0;
    for (int64_t first = 0; first < count; first += LISTED) {
        const int32_t *row[LISTED];
        float norm[LISTED], more[LISTED];
        __m512 least[LISTED];
#pragma GCC unroll 8
        for (int r = 0; r < LISTED; r++) {
            /* Past the end, repeat the last one, which changes no minimum. */
            row[r] = (const int32_t *)(prototypes + (first + r < count ? first + r : count - 1) * quads * 4);
            least[r] = _mm512_set1_ps(HUGE_VALF);
            __m512i square = _mm512_setzero_si512(), sum = square;
            for (int64_t t = 0; t < quads; t += 16) {
                const __mmask16 some = (__mmask16)(quads - t < 16 ? (1 << (quads - t)) - 1 : 0xffff);
                const __m512i bytes = _mm512_maskz_loadu_epi32(some, row[r] + t);
                square = _mm512_dpbusd_epi32(square, _mm512_abs_epi8(bytes), _mm512_abs_epi8(bytes));
                sum = _mm512_dpbusd_epi32(sum, ones, bytes);
            }
            norm[r] = (float)_mm512_reduce_add_epi32(square) * step * step / 2;
            more[r] = (float)_mm512_reduce_add_epi32(sum) * 128; /* for the 128 that were added to the query's */
        }
        for (int64_t v = 0; v < stride; v += LANES) {
            __m512i dot[LISTED];
#pragma GCC unroll 8
            for (int r = 0; r < LISTED; r++) dot[r] = _mm512_setzero_si512();
            for (int64_t t = 0; t < quads; t++) {
                const __m512i page = _mm512_loadu_si512(query->tile + (t * stride + v) * 4);
#pragma GCC unroll 8
                for (int r = 0; r < LISTED; r++)
                    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(dot[r]) : "v"(page), "m"(row[r][t]));
            }
            __m512 near = _mm512_loadu_ps(query->nearest + v);
            const __m512 own = _mm512_loadu_ps(query->norms + v);
#pragma GCC unroll 8
            for (int r = 0; r < LISTED; r++) {
                const __m512 exact = _mm512_sub_ps(_mm512_cvtepi32_ps(dot[r]), _mm512_set1_ps(more[r]));
                const __m512 sums = _mm512_mul_ps(_mm512_add_ps(own, _mm512_set1_ps(norm[r])), _mm512_set1_ps(1 - MARGIN));
                const __m512 half = _mm512_fnmadd_ps(exact, _mm512_set1_ps(unit), sums);
                near = _mm512_min_ps(near, half);
                least[r] = _mm512_min_ps(least[r], half);
            }
            _mm512_storeu_ps(query->nearest + v, near);
        }
        for (int r = 0; r < LISTED && first + r < count; r++) {
            const float nearest = _mm512_reduce_min_ps(least[r]);
            total += sqrtf(2 * (nearest > 0 ? nearest : 0));
        }
    }
    float forward = 0;
    for (int64_t i = 0; i < query->prototypes; i++)
        forward += sqrtf(2 * (query->nearest[i] > 0 ? query->nearest[i] : 0));
    const float found = (forward / (float)query->prototypes + total / (float)count) / 2;
    const float sums = (float)(query->prototypes + count + 16) * 0x1p-24f; /* more than the error of the additions */
    const float less = found * (1 - MARGIN - sums) - (query->off + off) * (1 + MARGIN);
    return less > 0 ? less : 0;
}
#endif
