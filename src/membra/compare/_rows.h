/* Chamfer distance of one query to one bag with consecutive prototypes, for one width of vector register. _bounds.c
 * includes this once for each instruction set, having defined:
 *   LEVEL   the suffix of every name made here
 *   TARGET  the compiler attribute that turns the instruction set on
 *   WIDTH   floats in a vector register (16, 8 or 4)
 *   ROWS    prototypes of the bag whose sums are held in registers at once
 */

typedef float NAME(vec) __attribute__((vector_size(4 * WIDTH), aligned(4), may_alias));
typedef int32_t NAME(ivec) __attribute__((vector_size(4 * WIDTH)));

static inline TARGET __attribute__((always_inline)) VEC NAME(smaller)(VEC a, VEC b) {
    const IVEC less = a < b;
    return (VEC)(((IVEC)a & less) | ((IVEC)b & ~less));
}

static inline TARGET __attribute__((always_inline)) float NAME(half_square)(const float *prototype, int64_t d) {
    VEC sum[2] = {{0}, {0}};
    int64_t t = 0;
    for (; t + 2 * WIDTH <= d; t += 2 * WIDTH) {
        const VEC a = *(const VEC *)(prototype + t), b = *(const VEC *)(prototype + t + WIDTH);
        sum[0] += a * a;
        sum[1] += b * b;
    }
    float total[WIDTH];
    *(VEC *)total = sum[0] + sum[1];
    for (int half = WIDTH / 2; half; half /= 2) /* in pairs, which compilers vectorise */
        for (int lane = 0; lane < half; lane++) total[lane] += total[lane + half];
    for (; t < d; t++) total[0] += prototype[t] * prototype[t];
    return total[0] / 2;
}

static TARGET float NAME(row_bound)(const struct lanes *query, const float *prototypes, int64_t count) {
    const int64_t d = query->d, stride = query->stride;
    for (int64_t i = 0; i < stride; i++) query->nearest[i] = HUGE_VALF;
    float total = 0;
    for (int64_t first = 0; first < count; first += ROWS) {
        const float *row[ROWS];
        float norm[ROWS];
        VEC least[ROWS][PARTS];
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            /* Past the end, repeat the last one, which changes no minimum. */
            row[r] = prototypes + (first + r < count ? first + r : count - 1) * d;
            norm[r] = NAME(half_square)(row[r], d);
#pragma GCC unroll 4
            for (int p = 0; p < PARTS; p++) least[r][p] = (VEC){0} + HUGE_VALF;
        }
        for (int64_t v = 0; v < stride; v += LANES) {
            VEC sum[ROWS][PARTS];
#pragma GCC unroll 8
            for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
                for (int p = 0; p < PARTS; p++) sum[r][p] = (VEC){0};
            const float *page = query->tile + v;
            for (int64_t t = 0; t < d; t++, page += stride) {
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 4
                    for (int p = 0; p < PARTS; p++) sum[r][p] += row[r][t] * *(const VEC *)(page + p * WIDTH);
            }
#pragma GCC unroll 4
            for (int p = 0; p < PARTS; p++) {
                VEC *near = (VEC *)(query->nearest + v + p * WIDTH);
                const VEC own = *(const VEC *)(query->norms + v + p * WIDTH);
#pragma GCC unroll 8
                for (int r = 0; r < ROWS; r++) {
                    const VEC half = query->shrink * (own + norm[r]) - sum[r][p];
                    *near = NAME(smaller)(*near, half);
                    least[r][p] = NAME(smaller)(least[r][p], half);
                }
            }
        }
        for (int r = 0; r < ROWS && first + r < count; r++) {
            float nearest[WIDTH];
            VEC all = least[r][0];
            for (int p = 1; p < PARTS; p++) all = NAME(smaller)(all, least[r][p]);
            *(VEC *)nearest = all;
            for (int half = WIDTH / 2; half; half /= 2)
                for (int lane = 0; lane < half; lane++)
                    nearest[lane] = nearest[lane] < nearest[lane + half] ? nearest[lane] : nearest[lane + half];
            total += sqrtf(2 * (nearest[0] > 0 ? nearest[0] : 0));
        }
    }
    float forward = 0;
    for (int64_t i = 0; i < query->prototypes; i++)
        forward += sqrtf(2 * (query->nearest[i] > 0 ? query->nearest[i] : 0));
    return (forward / (float)query->prototypes + total / (float)count) / 2;
}

#undef LEVEL
#undef TARGET
#undef WIDTH
#undef ROWS
