/* One table look-up per prototype of every bag, for shortlists: a query is compared with the codewords, and the mean of
 * these distances over the codes of a bag's prototypes approximates the distance of the bag. _bounds.c includes this
 * once; find/shortlist.py explains the method.
 */

/* look([(codes, starts, counts, indices, found), ...], table): the mean of table[code] over each bag's prototypes. */
enum { CODES, STARTS, COUNTS, LOOK_INDICES, LOOK_FOUND, LOOK_ARRAYS };

#if defined(X86)
__attribute__((target("avx512f"))) static void look_group_avx512(
    const uint16_t *code, int64_t slots, const float *values, uint16_t most, float *sum) {
    __m512 total = _mm512_setzero_ps();
    for (int64_t slot = 0; slot < slots; slot++) {
        const __m512i all = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(code + slot * LANES)));
        total = _mm512_add_ps(total, _mm512_i32gather_ps(_mm512_min_epu32(all, _mm512_set1_epi32(most)), values, 4));
    }
    _mm512_storeu_ps(sum, total);
}
#endif

static void look_group(const uint16_t *code, int64_t slots, const float *values, uint16_t most, float *sum) {
    memset(sum, 0, LANES * sizeof *sum);
    for (int64_t slot = 0; slot < slots; slot++, code += LANES)
        for (int lane = 0; lane < LANES; lane++) sum[lane] += values[code[lane] < most ? code[lane] : most];
}

static int look_fits(const Py_buffer *part) {
    const int64_t *start = part[STARTS].buf, *index = part[LOOK_INDICES].buf;
    const int64_t groups = part[STARTS].len / 8 - 1, bags = part[LOOK_FOUND].len / 4;
    if (groups < 0 || start[0] < 0 || part[COUNTS].len != groups * LANES * 4 ||
        part[LOOK_INDICES].len != 2 * part[COUNTS].len || part[CODES].len % (LANES * 2) ||
        part[CODES].len / (LANES * 2) != start[groups])
        return 0;
    for (int64_t g = 0; g < groups; g++)
        if (start[g] > start[g + 1]) return 0;
    for (int64_t i = 0; i < groups * LANES; i++)
        if (index[i] < -1 || index[i] >= bags) return 0;
    return 1;
}

static void look_part(const Py_buffer *part, const float *table, int64_t entries) {
    const int64_t *start = part[STARTS].buf, *index = part[LOOK_INDICES].buf;
    const int64_t groups = part[STARTS].len / 8 - 1;
    const uint16_t most = (uint16_t)(entries <= 65536 ? entries - 1 : 65535);
    void (*work)(const uint16_t *, int64_t, const float *, uint16_t, float *) = look_group;
#if defined(X86)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) work = look_group_avx512;
#endif
    for (int64_t g = 0; g < groups; g++) {
        float sum[LANES];
        work((const uint16_t *)part[CODES].buf + start[g] * LANES, start[g + 1] - start[g], table, most, sum);
        for (int lane = 0; lane < LANES; lane++) {
            const int64_t at = g * LANES + lane;
            const int32_t count = ((const int32_t *)part[COUNTS].buf)[at];
            if (index[at] >= 0) ((float *)part[LOOK_FOUND].buf)[index[at]] = sum[lane] / (float)(count > 0 ? count : 1);
        }
    }
}
