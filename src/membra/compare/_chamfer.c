/* Nearest-prototype sums of query bags against packed bags: the native half of kernels.py, which documents the layout.
 *
 * Sixteen bags are side by side, so that one vector register holds the same coordinate of the same slot of sixteen
 * bags, and the distances of a query prototype to sixteen others accumulate in one register, without a sum across lanes
 * and without being stored. The instruction set is chosen when the function is called. It releases the Python lock
 * while it computes: kernels.py runs it in several threads over ranges of groups.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_vector.h"

#define LANES 16
#define TINY 0.00390625f /* 2^-8: share of |p|^2 below which half squared distances are computed by differences */

struct query {
    const float *tile;    /* [d][stride]: the prototypes side by side, padded to whole blocks, or */
    const uint32_t *pairs; /* [d / 2, rounded up][stride]: the same rounded to bfloat16, two coordinates together */
    const float *norms;   /* [stride] half squared norms; infinite for padding prototypes */
    const float *weights; /* [prototypes] */
    float *nearest;       /* [stride][16], scratch memory */
    int64_t stride;
    int prototypes, block;
    float shrink;
};

struct group {
    const float *tiles;     /* [slots][d][16], or */
    const uint16_t *narrow; /* the same in fp16, with */
    float *wide;            /* [d][16], scratch memory */
    const float *norms;     /* [slots][16] half squared norms; infinite where a bag has no such prototype */
    const float *masses;    /* [slots][16], or NULL: each prototype has weight 1 / counts */
    const int32_t *counts;  /* [16] prototypes per bag */
    int64_t slots, d;
};

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define X86 1

__attribute__((target("avx512f"))) static inline void widen_avx512(const uint16_t *half, float *full) {
    _mm512_storeu_ps(full, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)half)));
}
__attribute__((target("avx2,fma,f16c"))) static inline void widen_avx2(const uint16_t *half, float *full) {
    _mm256_storeu_ps(full, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)half)));
    _mm256_storeu_ps(full + 8, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(half + 8))));
}

#if __GNUC__ >= 10 || __clang_major__ >= 9
#define BF16 1
#define BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512bf16")))

/* Interleaves two coordinates of sixteen prototypes, from [2][16]: x0 y0 x1 y1 ... */
BF16_TARGET static inline __m512bh pair(__m512 x, __m512 y) {
    const __m512i order = _mm512_set_epi16(
        31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (__m512bh)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(y, x));
}
BF16_TARGET static inline __m512bh pair_half(const uint16_t *half, int two) {
    const __m512 x = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)half));
    return pair(x, two ? _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(half + LANES))) : _mm512_setzero_ps());
}
BF16_TARGET static inline __m512bh pair_full(const float *full, int two) {
    return pair(_mm512_loadu_ps(full), two ? _mm512_loadu_ps(full + LANES) : _mm512_setzero_ps());
}

#define LEVEL bf16
#define TARGET BF16_TARGET
#define PAIRS
#define WIDTH 16
#define BLOCK 24
#define SMALLER(a, b) _mm512_min_ps((__m512)(a), (__m512)(b))
#include "_tile.h"
#endif

#define LEVEL avx512
#define TARGET __attribute__((target("avx512f")))
#define WIDTH 16
#define BLOCK 24 /* of 32 registers */
#define WIDEN widen_avx512
#define SMALLER(a, b) _mm512_min_ps((__m512)(a), (__m512)(b))
#define ANY_LESS(a, b) (_mm512_cmp_ps_mask((__m512)(a), (__m512)(b), _CMP_LT_OQ) != 0)
#include "_tile.h"

#define LEVEL avx2
#define TARGET __attribute__((target("avx2,fma,f16c")))
#define WIDTH 8
#define BLOCK 6 /* times two parts: 12 of 16 registers */
#define WIDEN widen_avx2
#define SMALLER(a, b) _mm256_min_ps((__m256)(a), (__m256)(b))
#define ANY_LESS(a, b) (_mm256_movemask_ps(_mm256_cmp_ps((__m256)(a), (__m256)(b), _CMP_LT_OQ)) != 0)
#include "_tile.h"
#endif

static inline void widen_base(const uint16_t *half, float *full) {
#if defined(__ARM_FP16_FORMAT_IEEE)
    for (int lane = 0; lane < LANES; lane++) full[lane] = (float)((const __fp16 *)half)[lane];
#else
    /* Shifts exponent and fraction to their positions in a float, and corrects the bias by a product with 2^112, which
     * is correct for subnormal numbers as well. Infinities do not occur: packing rejects them. */
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t bits = (uint32_t)(half[lane] & 0x7fff) << 13;
        float value;
        memcpy(&value, &bits, 4);
        value *= 0x1p112f;
        full[lane] = half[lane] & 0x8000 ? -value : value;
    }
#endif
}

typedef float four __attribute__((vector_size(16)));
typedef int32_t four_masks __attribute__((vector_size(16)));
static inline four smaller_base(four a, four b) {
    const four_masks less = a < b;
    return (four)(((four_masks)a & less) | ((four_masks)b & ~less));
}
static inline int any_less_base(four a, four b) {
    return (a[0] < b[0]) | (a[1] < b[1]) | (a[2] < b[2]) | (a[3] < b[3]);
}

#define LEVEL base
#define TARGET
#define WIDTH 4
#if defined(__aarch64__)
#define BLOCK 6 /* times four parts: 24 of 32 registers */
#else
#define BLOCK 2 /* times four parts: 8 of 16 registers */
#endif
#define WIDEN widen_base
#define SMALLER smaller_base
#define ANY_LESS any_less_base
#include "_tile.h"

typedef void (*comparer)(const struct query *, const struct group *, float *, float *);

static const struct level {
    const char *name;
    comparer compare;
    int block, coarse;
} levels[] = {
#if defined(BF16)
    {"bf16", compare_bf16, 24, 1},
#endif
#if defined(X86)
    {"avx512", compare_avx512, 24, 0},
    {"avx2", compare_avx2, 6, 0},
#endif
#if defined(__aarch64__)
    {"base", compare_base, 6, 0},
#else
    {"base", compare_base, 2, 0},
#endif
};
#define LEVELS (int)(sizeof levels / sizeof *levels)

static int runs_here(const char *name) {
#if defined(X86)
    __builtin_cpu_init();
#if defined(BF16)
    if (!strcmp(name, "bf16")) return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512bw");
#endif
    if (!strcmp(name, "avx512")) return __builtin_cpu_supports("avx512f");
    /* f16c is older than avx2, and every processor with the latter has it */
    if (!strcmp(name, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return !strcmp(name, "base");
}

/* Rounds to bfloat16, ties to even, as the upper half of a float. */
static uint32_t rounded(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* Lays out the prototypes [count][d] of one query side by side. False: out of memory. */
static int set_query(
    struct query *query, const float *prototypes, const float *weights, int64_t count, int64_t d,
    const struct level *level, float shrink) {
    const int most = level->block;
    const int64_t blocks = (count + most - 1) / most;
    query->prototypes = (int)count;
    query->block = (int)((count + blocks - 1) / blocks); /* blocks of equal size */
    if (query->block > 6) query->block += query->block % 2; /* _tile.h has no odd sizes above 6 */
    query->stride = blocks * query->block;
    query->weights = weights;
    query->shrink = shrink;
    float *memory = malloc(sizeof(float) * (size_t)(query->stride * (d + 1 + LANES)));
    if (!memory) return 0;
    float *norms = memory + query->stride * d;
    uint32_t *pairs = (uint32_t *)memory; /* half the number of elements of the same size */
    for (int64_t t = 0; t < d; t++)
        for (int64_t i = 0; i < query->stride; i++) {
            const float value = i < count ? prototypes[i * d + t] : 0.0f;
            if (!level->coarse)
                memory[t * query->stride + i] = value;
            else if (t % 2 == 0)
                pairs[t / 2 * query->stride + i] = rounded(value);
            else
                pairs[t / 2 * query->stride + i] |= rounded(value) << 16;
        }
    for (int64_t i = 0; i < query->stride; i++) {
        double parts[8] = {0}; /* eight independent sums, since each addition waits for the one before */
        for (int64_t t = 0; i < count && t < d; t++)
            parts[t % 8] += (double)prototypes[i * d + t] * prototypes[i * d + t];
        double norm = 0;
        for (int part = 0; part < 8; part++) norm += parts[part];
        norms[i] = i < count ? (float)(norm / 2) : HUGE_VALF;
    }
    query->tile = memory;
    query->pairs = pairs;
    query->norms = norms;
    query->nearest = norms + query->stride;
    return 1;
}

/* sums(level, narrow, d, shrink, tiles, norms, masses | None, starts, counts, prototypes, weights, offsets,
 *      forward, backward, first, last): fills columns [first * 16, last * 16) of forward and backward. */
static PyObject *sums(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    int narrow, bad = 0;
    float shrink;
    long long d, first, last;
    PyObject *masses;
    Py_buffer tiles, norms, weighed = {0}, starts, counts, prototypes, weights, offsets, forward, backward;
    if (!PyArg_ParseTuple(
            args, "spLfy*y*Oy*y*y*y*y*w*w*LL", &name, &narrow, &d, &shrink, &tiles, &norms, &masses, &starts, &counts,
            &prototypes, &weights, &offsets, &forward, &backward, &first, &last))
        return NULL;
    if (masses != Py_None && PyObject_GetBuffer(masses, &weighed, PyBUF_C_CONTIGUOUS)) goto release;

    const struct level *level = NULL;
    for (int i = 0; i < LEVELS; i++)
        if (!strcmp(levels[i].name, name) && runs_here(name)) level = &levels[i];
    if (!level) {
        PyErr_Format(PyExc_ValueError, "this processor has no kernel '%s'", name);
        goto release;
    }
    const int64_t *start = starts.buf, *offset = offsets.buf;
    const int64_t groups = starts.len / 8 - 1, queries = offsets.len / 8 - 1, width = narrow ? 2 : 4;
    /* kernels.py has checked shapes and dtypes; these checks prevent reads beyond an array. */
    bad = groups < 0 || queries < 0 || d < 1 || first < 0 || last > groups || first > last || start[0] < 0 ||
          offset[0] < 0 || counts.len != groups * LANES * 4 || forward.len != queries * groups * LANES * 4 ||
          backward.len != forward.len || prototypes.len != weights.len * d || offset[queries] * 4 > weights.len ||
          norms.len != start[groups] * LANES * 4 || tiles.len != start[groups] * d * LANES * width ||
          (weighed.buf && weighed.len != norms.len);
    for (int64_t g = 0; !bad && g < groups; g++) bad = start[g] > start[g + 1];
    for (int64_t q = 0; !bad && q < queries; q++) bad = offset[q] >= offset[q + 1];
    if (bad) {
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        goto release;
    }

    int short_of_memory = 0;
    Py_BEGIN_ALLOW_THREADS
    struct query *query = calloc((size_t)(queries ? queries : 1), sizeof *query);
    float *memory = malloc(sizeof(float) * (size_t)(d + 1) * LANES);
    /* A vector across two cache lines costs two stores. */
    float *wide = (float *)(((uintptr_t)memory + 63) & ~(uintptr_t)63);
    short_of_memory = !query || !memory;
    for (int64_t q = 0; !short_of_memory && q < queries; q++)
        short_of_memory = !set_query(
            query + q, (const float *)prototypes.buf + offset[q] * d, (const float *)weights.buf + offset[q],
            offset[q + 1] - offset[q], d, level, shrink);
    /* Groups in the outer loop, queries in the inner: a group is read from memory once and stays in the L2 cache. */
    for (int64_t g = first; !short_of_memory && g < last; g++) {
        const struct group group = {
            .tiles = narrow ? NULL : (const float *)tiles.buf + start[g] * d * LANES,
            .narrow = narrow ? (const uint16_t *)tiles.buf + start[g] * d * LANES : NULL,
            .wide = wide,
            .norms = (const float *)norms.buf + start[g] * LANES,
            .masses = weighed.buf ? (const float *)weighed.buf + start[g] * LANES : NULL,
            .counts = (const int32_t *)counts.buf + g * LANES,
            .slots = start[g + 1] - start[g],
            .d = d,
        };
        for (int64_t q = 0; q < queries; q++) {
            const int64_t index = (q * groups + g) * LANES;
            level->compare(query + q, &group, (float *)forward.buf + index, (float *)backward.buf + index);
        }
    }
    for (int64_t q = 0; query && q < queries; q++) free((void *)query[q].tile);
    free(query);
    free(memory);
    Py_END_ALLOW_THREADS
    if (short_of_memory) PyErr_NoMemory();

release:
    if (weighed.obj) PyBuffer_Release(&weighed);
    Py_buffer *buffers[] = {&tiles, &norms, &starts, &counts, &prototypes, &weights, &offsets, &forward, &backward};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) PyBuffer_Release(buffers[i]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* names(coarse): the kernels that this processor runs, fastest first; those for bounds only, or all others. */
static PyObject *names(PyObject *self, PyObject *coarse) {
    (void)self;
    PyObject *found = PyList_New(0);
    for (int i = 0; found && i < LEVELS; i++) {
        if (levels[i].coarse != PyObject_IsTrue(coarse) || !runs_here(levels[i].name)) continue;
        PyObject *name = PyUnicode_FromString(levels[i].name);
        if (!name || PyList_Append(found, name)) Py_CLEAR(found);
        Py_XDECREF(name);
    }
    return found;
}

static PyMethodDef methods[] = {
    {"names", names, METH_O, "The kernels that this processor runs, fastest first: for bounds alone, or all others."},
    {"sums", sums, METH_VARARGS, "Nearest-prototype sums of queries against groups of packed bags."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_chamfer", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__chamfer(void) { return PyModule_Create(&module); }
