/* One query against one group of 16 bags, for one width of vector register. _chamfer.c includes this once for each
 * instruction set, having defined:
 *   LEVEL    the suffix of every name made here
 *   TARGET   the compiler attribute that turns the instruction set on
 *   WIDTH    floats in a vector register (16, 8 or 4)
 *   BLOCK    query prototypes whose sums are held in registers at once
 *   WIDEN    void WIDEN(const uint16_t *half, float *full): sixteen halves become floats
 *   SMALLER  the smaller of two vectors, lane by lane
 *   ANY_LESS whether any lane of one vector is less than that of another
 *   PAIRS    defined for products of bfloat16, two at a time: less precise, for lower bounds only
 */

typedef float NAME(vec) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t NAME(ivec) __attribute__((vector_size(4 * WIDTH)));

#ifndef PAIRS
/* Computes half squared distances value[16] of one query prototype to the 16 of one tile by differences, where two of
 * them nearly coincide and the difference of norms and product has no correct digits. */
static TARGET __attribute__((noinline)) void NAME(differences)(
    const float *own, int64_t stride, const float *tile, const float *norm, int64_t d, float shrink, float *value) {
    int near = 0;
    for (int lane = 0; lane < LANES; lane++) near |= value[lane] < TINY * norm[lane];
    if (!near) return;
    float sum[LANES] = {0};
    for (int64_t t = 0; t < d; t++)
        for (int lane = 0; lane < LANES; lane++) {
            const float gap = own[t * stride] - tile[t * LANES + lane];
            sum[lane] += gap * gap;
        }
    for (int lane = 0; lane < LANES; lane++)
        if (value[lane] < TINY * norm[lane]) value[lane] = 0.5f * shrink * sum[lane];
}
#endif

/* The loops over `n` are unrolled: with n constant, n * PARTS sums stay in registers over all of d. */
static inline TARGET __attribute__((always_inline)) void NAME(sweep)(
    const int n, const struct query *query, const struct group *group, float *forward, float *backward) {
    const int64_t d = group->d, stride = query->stride;
    float *nearest = query->nearest; /* of each query prototype to the prototypes seen so far, [prototypes][16] */
    float total[LANES] = {0};
    const int blocks = (query->prototypes + n - 1) / n;
    for (int i = 0; i < blocks * n * LANES; i++) nearest[i] = HUGE_VALF;

    for (int64_t slot = 0; slot < group->slots; slot++) {
        /* The first block widens fp16 into memory that stays in the L1 cache. */
        const uint16_t *half = group->narrow ? group->narrow + slot * d * LANES : NULL;
        float *wide = group->wide;
        const float *tile = half ? wide : group->tiles + slot * d * LANES;
        const float *norm = group->norms + slot * LANES;
        float least[LANES]; /* of each prototype in this slot to all query prototypes */
        for (int lane = 0; lane < LANES; lane++) least[lane] = HUGE_VALF;

        for (int block = 0; block < blocks; block++) {
            VEC sum[BLOCK][PARTS];
#pragma GCC unroll 32
            for (int i = 0; i < n; i++)
#pragma GCC unroll 4
                for (int p = 0; p < PARTS; p++) sum[i][p] = (VEC){0};
#ifdef PAIRS
#define MULTIPLY(page) \
    const __m512bh both = page; \
    _Pragma("GCC unroll 32") for (int i = 0; i < n; i++) sum[i][0] = \
        (VEC)_mm512_dpbf16_ps((__m512)sum[i][0], both, (__m512bh)_mm512_set1_epi32((int)pairs[t / 2 * stride + i]));
            const uint32_t *pairs = query->pairs + block * n;
            if (half)
                for (int64_t t = 0; t < d; t += 2) {
                    MULTIPLY(pair_half(half + t * LANES, t + 1 < d))
                }
            else
                for (int64_t t = 0; t < d; t += 2) {
                    MULTIPLY(pair_full(tile + t * LANES, t + 1 < d))
                }
#else
            const float *prototypes = query->tile + block * n;
#define MULTIPLY(t, from) \
    VEC page[PARTS]; \
    _Pragma("GCC unroll 4") for (int p = 0; p < PARTS; p++) page[p] = *(const VEC *)(from + t * LANES + p * WIDTH); \
    _Pragma("GCC unroll 32") for (int i = 0; i < n; i++) { \
        const float prototype = prototypes[t * stride + i]; \
        _Pragma("GCC unroll 4") for (int p = 0; p < PARTS; p++) sum[i][p] += prototype * page[p]; \
    }
            if (half && block == 0)
                for (int64_t t = 0; t < d; t++) {
                    WIDEN(half + t * LANES, wide + t * LANES);
                    MULTIPLY(t, wide)
                }
            else
                for (int64_t t = 0; t < d; t++) {
                    MULTIPLY(t, tile)
                }
#endif
#undef MULTIPLY
            /* half the squared distance = (|q|^2 + |p|^2) / 2 - q.p; roots are taken of the minima only */
            const float *own = query->norms + block * n;
            float *kept = nearest + block * n * LANES;
            VEC close[PARTS];
#pragma GCC unroll 4
            for (int p = 0; p < PARTS; p++) close[p] = *(const VEC *)(norm + p * WIDTH) + HUGE_VALF;
#pragma GCC unroll 32
            for (int i = 0; i < n; i++)
#pragma GCC unroll 4
                for (int p = 0; p < PARTS; p++) {
                    sum[i][p] = query->shrink * (own[i] + *(const VEC *)(norm + p * WIDTH)) - sum[i][p];
                    close[p] = (VEC)SMALLER(close[p], sum[i][p]);
                }
#ifndef PAIRS
            int near = 0;
#pragma GCC unroll 4
            for (int p = 0; p < PARTS; p++) near |= ANY_LESS(close[p], TINY * *(const VEC *)(norm + p * WIDTH));
            if (near) {
                float value[BLOCK * LANES];
                for (int i = 0; i < n; i++)
                    for (int p = 0; p < PARTS; p++) *(VEC *)(value + i * LANES + p * WIDTH) = sum[i][p];
                for (int i = 0; i < n; i++) {
                    NAME(differences)(prototypes + i, stride, tile, norm, d, query->shrink, value + i * LANES);
                    for (int lane = 0; lane < LANES; lane++) {
                        const float v = value[i * LANES + lane];
                        if (v < kept[i * LANES + lane]) kept[i * LANES + lane] = v;
                        if (v < least[lane]) least[lane] = v;
                    }
                }
                continue;
            }
#endif
#pragma GCC unroll 32
            for (int i = 0; i < n; i++)
#pragma GCC unroll 4
                for (int p = 0; p < PARTS; p++) {
                    VEC *cell = (VEC *)(kept + i * LANES + p * WIDTH);
                    *cell = (VEC)SMALLER(*cell, sum[i][p]);
                }
#pragma GCC unroll 4
            for (int p = 0; p < PARTS; p++) {
                VEC *cell = (VEC *)(least + p * WIDTH);
                *cell = (VEC)SMALLER(*cell, close[p]);
            }
        }
        const float *mass = group->masses ? group->masses + slot * LANES : NULL;
        for (int lane = 0; lane < LANES; lane++) {
            const float root = sqrtf(2.0f * (least[lane] > 0.0f ? least[lane] : 0.0f));
            const float weight = mass ? mass[lane] : 1.0f;
            total[lane] += norm[lane] < HUGE_VALF ? weight * root : 0.0f;
        }
    }

    float sum[LANES] = {0};
    for (int i = 0; i < query->prototypes; i++)
        for (int lane = 0; lane < LANES; lane++) {
            const float least = nearest[i * LANES + lane];
            sum[lane] += query->weights[i] * sqrtf(2.0f * (least > 0.0f ? least : 0.0f));
        }
    for (int lane = 0; lane < LANES; lane++) {
        forward[lane] = sum[lane];
        const int32_t count = group->counts[lane] > 0 ? group->counts[lane] : 1;
        backward[lane] = group->masses ? total[lane] : total[lane] / (float)count;
    }
}

static TARGET void NAME(compare)(const struct query *query, const struct group *group, float *forward, float *backward) {
    switch (query->block) {
#define CASE(n) \
    case n: \
        NAME(sweep)(n, query, group, forward, backward); \
        break;
        CASE(1) CASE(2)
#if BLOCK > 2
        CASE(3) CASE(4) CASE(5) CASE(6)
#endif
#if BLOCK > 6 /* even numbers only: half the code, and at most one padding prototype */
        CASE(8) CASE(10) CASE(12) CASE(14) CASE(16) CASE(18) CASE(20) CASE(22) CASE(24)
#endif
#undef CASE
    }
}

#undef LEVEL
#undef TARGET
#undef WIDTH
#undef BLOCK
#undef WIDEN
#undef SMALLER
#undef ANY_LESS
#undef PAIRS
