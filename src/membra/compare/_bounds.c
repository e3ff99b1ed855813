/* Lower bounds of Chamfer distances: the native half of bounds.py, which documents the layout and the formulas.
 *
 * below: one query against all bags, in products of bytes, which the processor makes four times as fast as those of
 * floats. What rounding to bytes can have moved is known exactly, and is taken off, so that the bound holds.
 * rows:  one query against a list of bags where they lie, word after word in float32: nearly the distance itself.
 * look:  one look-up for every word of every bag, for shortlists.
 *
 * None of them holds the Python lock while it computes; bounds.py runs them from several threads over ranges.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "_vector.h"

#define LANES 16
#define MARGIN 0x1p-20f /* relative: more than the few roundings of a float32 expression can add up to */

/* Zeros that begin at a multiple of 64 bytes: a vector across two cache lines costs two loads. NULL: no memory. */
static void *zeros(int64_t count) {
    const size_t size = ((size_t)count * 4 + 63) / 64 * 64;
    void *memory = aligned_alloc(64, size);
    if (memory) memset(memory, 0, size);
    return memory;
}

/* Products of one query, its words side by side in lanes, with the words of one bag. */
struct lanes {
    const float *tile;  /* [d][stride] */
    const float *norms; /* [stride] half squared norms; infinite for lanes without a word */
    float *nearest;     /* [stride], to work in */
    int64_t words, stride, d;
    float shrink;
};

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define X86 1

#define LEVEL avx512
#define TARGET __attribute__((target("avx512f")))
#define WIDTH 16
#define ROWS 8
#include "_rows.h"

#define LEVEL avx2
#define TARGET __attribute__((target("avx2,fma")))
#define WIDTH 8
#define ROWS 4
#include "_rows.h"
#endif

#define LEVEL base
#define TARGET
#define WIDTH 4
#define ROWS 2
#include "_rows.h"

typedef float (*rower)(const struct lanes *, const float *, int64_t);

static rower row_kernel(const char *name) {
#if defined(X86)
    __builtin_cpu_init();
    if (!strcmp(name, "avx512") && __builtin_cpu_supports("avx512f")) return row_bound_avx512;
    if (!strcmp(name, "avx2") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return row_bound_avx2;
#endif
    return !strcmp(name, "base") ? row_bound_base : NULL;
}

#include "_bytes.h"
#include "_listed.h"

/* below(tiles, norms, steps, offs, starts, counts, places, words, d, found, first, last): fills `found` [bags] at the
 * places of the groups [first, last). */
static PyObject *below(PyObject *self, PyObject *args) {
    (void)self;
    long long d, first, last;
    int bad = 0, short_of_memory = 0;
    Py_buffer tiles, norms, steps, offs, starts, counts, places, words, found;
    if (!PyArg_ParseTuple(
            args, "y*y*y*y*y*y*y*y*Lw*LL", &tiles, &norms, &steps, &offs, &starts, &counts, &places, &words, &d, &found,
            &first, &last))
        return NULL;
    const int64_t *start = starts.buf, *place = places.buf;
    const int64_t groups = starts.len / 8 - 1, quads = (d + 3) / 4, bags = found.len / 4;
    /* bounds.py has checked shapes and dtypes; these keep a wrong call from reading past an array. */
    bad = groups < 0 || d < 1 || d > 2048 || first < 0 || last > groups || first > last || start[0] < 0 ||
          words.len < d * 4 || words.len % (d * 4) || counts.len != groups * LANES * 4 || steps.len != counts.len ||
          offs.len != counts.len || places.len != 2 * counts.len || norms.len != start[groups] * LANES * 4 ||
          tiles.len != start[groups] * quads * LANES * 4;
    for (int64_t g = 0; !bad && g < groups; g++) bad = start[g] > start[g + 1];
    for (int64_t i = 0; !bad && i < groups * LANES; i++) bad = place[i] < -1 || place[i] >= bags;
    if (bad) PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
#if defined(VNNI)
    if (!bad && !has_bytes()) PyErr_SetString(PyExc_ValueError, "this processor has no products of bytes");
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        struct bytes query;
        short_of_memory = !set_bytes(&query, words.buf, words.len / (d * 4), d);
        for (int64_t g = first; !short_of_memory && g < last; g++) {
            const struct group group = {
                .tiles = (const uint8_t *)tiles.buf + start[g] * quads * LANES * 4,
                .norms = (const float *)norms.buf + start[g] * LANES,
                .steps = (const float *)steps.buf + g * LANES,
                .offs = (const float *)offs.buf + g * LANES,
                .counts = (const int32_t *)counts.buf + g * LANES,
                .slots = start[g + 1] - start[g],
            };
            float own[LANES];
            compare(&query, &group, own);
            for (int lane = 0; lane < LANES; lane++)
                if (place[g * LANES + lane] >= 0) ((float *)found.buf)[place[g * LANES + lane]] = own[lane];
        }
        if (!short_of_memory) free(query.own);
        Py_END_ALLOW_THREADS
    }
#else
    if (!bad) PyErr_SetString(PyExc_ValueError, "this processor has no products of bytes");
#endif
    if (short_of_memory) PyErr_NoMemory();
    Py_buffer *held[] = {&tiles, &norms, &steps, &offs, &starts, &counts, &places, &words, &found};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) PyBuffer_Release(held[i]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* The arrays of `parts`, a list of tuples of `width` arrays each of which the last is written to: all of a call's shards
 * at once, since to wake a thread for each takes longer than some of them. NULL: an error is set. */
static Py_buffer *taken(PyObject *parts, int width, Py_ssize_t *count) {
    *count = PyList_Check(parts) ? PyList_Size(parts) : -1;
    Py_buffer *held = *count >= 0 ? malloc((size_t)(*count * width + 1) * sizeof *held) : NULL;
    if (!held) {
        if (*count >= 0) return (Py_buffer *)PyErr_NoMemory();
        PyErr_SetString(PyExc_TypeError, "a list of tuples of arrays is needed");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < *count * width; i++) {
        PyObject *part = PyList_GetItem(parts, i / width), *array = NULL;
        if (part && PyTuple_Check(part) && PyTuple_Size(part) == width) array = PyTuple_GetItem(part, i % width);
        if (part && !array && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a part has other arrays");
        if (!array || PyObject_GetBuffer(array, held + i, i % width == width - 1 ? PyBUF_WRITABLE : PyBUF_SIMPLE)) {
            while (i--) PyBuffer_Release(held + i);
            free(held);
            return NULL;
        }
    }
    return held;
}

static void let_go(Py_buffer *held, Py_ssize_t count) {
    while (count--) PyBuffer_Release(held + count);
    free(held);
}

/* Whether all `places` are bags, whose rows by `offsets` are some of so many, and `found` has room for each. */
static int places_fit(const Py_buffer *offsets, const Py_buffer *places, const Py_buffer *found, int64_t rows) {
    const int64_t *offset = offsets->buf, *place = places->buf;
    const int64_t bags = offsets->len / 8 - 1, count = found->len / 4;
    if (places->len != 8 * count) return 0;
    for (int64_t i = 0; i < count; i++)
        if (place[i] < 0 || place[i] >= bags || offset[place[i]] < 0 || offset[place[i]] >= offset[place[i] + 1] ||
            offset[place[i] + 1] > rows)
            return 0;
    return 1;
}

/* rows([(prototypes, offsets, places, found), ...], level, words, d, shrink): fills each `found` with the distances of the
 * query `words` [.][d] to the bags at `places`, whose words are rows of `prototypes` [.][d]. */
enum { PROTOTYPES, ROW_OFFSETS, ROW_PLACES, ROW_FOUND, ROW_ARRAYS };

static void rows_part(rower bound, const struct lanes *query, const Py_buffer *part) {
    const int64_t *offset = part[ROW_OFFSETS].buf, *place = part[ROW_PLACES].buf;
    const int64_t count = part[ROW_FOUND].len / 4, d = query->d;
    const float *prototypes = part[PROTOTYPES].buf;
    for (int64_t i = 0; i < count; i++) {
        /* Listed bags lie anywhere: the next is fetched while this one is compared. */
        const int64_t next = place[i + 1 < count ? i + 1 : i], end = offset[next + 1] * d;
        for (int64_t at = offset[next] * d; at < end; at += 16) __builtin_prefetch(prototypes + at, 0, 2);
        ((float *)part[ROW_FOUND].buf)[i] =
            bound(query, prototypes + offset[place[i]] * d, offset[place[i] + 1] - offset[place[i]]);
    }
}

/* The words [count][d] of one query in lanes, and room to work in. False: no memory; else free `tile`. */
static int set_lanes(struct lanes *query, const float *words, int64_t count, int64_t d, float shrink) {
    const int64_t stride = (count + LANES - 1) / LANES * LANES;
    float *memory = zeros(stride * (d + 2));
    if (!memory) return 0;
    float *norms = memory + stride * d;
    for (int64_t i = 0; i < stride; i++) {
        double norm = 0;
        for (int64_t t = 0; i < count && t < d; t++) {
            const float value = words[i * d + t];
            memory[t * stride + i] = value;
            norm += (double)value * value;
        }
        norms[i] = i < count ? (float)(norm / 2) : HUGE_VALF;
    }
    *query = (struct lanes){memory, norms, norms + stride, count, stride, d, shrink};
    return 1;
}

static PyObject *rows(PyObject *self, PyObject *args) {
    (void)self;
    const char *name;
    long long d;
    float shrink;
    int short_of_memory = 0;
    Py_ssize_t count;
    PyObject *parts;
    Py_buffer words;
    if (!PyArg_ParseTuple(args, "Osy*Lf", &parts, &name, &words, &d, &shrink)) return NULL;
    const rower bound = row_kernel(name);
    Py_buffer *held = taken(parts, ROW_ARRAYS, &count);
    if (held) {
        int bad = d < 1 || words.len < d * 4 || words.len % (d * 4);
        for (Py_ssize_t i = 0; !bad && i < count; i++) {
            const Py_buffer *part = held + i * ROW_ARRAYS;
            bad = !places_fit(part + ROW_OFFSETS, part + ROW_PLACES, part + ROW_FOUND, part[PROTOTYPES].len / (d * 4));
        }
        if (bad) PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        if (!bound) PyErr_SetString(PyExc_ValueError, "no such kernel on this machine");
        if (!PyErr_Occurred()) {
            Py_BEGIN_ALLOW_THREADS
            struct lanes query;
            short_of_memory = !set_lanes(&query, words.buf, words.len / (d * 4), d, shrink);
            for (Py_ssize_t i = 0; !short_of_memory && i < count; i++) rows_part(bound, &query, held + i * ROW_ARRAYS);
            if (!short_of_memory) free((void *)query.tile);
            Py_END_ALLOW_THREADS
        }
        let_go(held, count * ROW_ARRAYS);
    }
    if (short_of_memory) PyErr_NoMemory();
    PyBuffer_Release(&words);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* listed([(bytes, offsets, steps, offs, places, found), ...], words, d): as rows, by the words in bytes. */
enum { BYTES, OFFSETS, STEPS, OFFS, LISTED_PLACES, LISTED_FOUND, LISTED_ARRAYS };

static int listed_fit(const Py_buffer *part, int64_t width) {
    const int64_t bags = part[OFFSETS].len / 8 - 1;
    return part[STEPS].len == bags * 4 && part[OFFS].len == bags * 4 &&
           places_fit(part + OFFSETS, part + LISTED_PLACES, part + LISTED_FOUND, part[BYTES].len / width);
}

#if defined(VNNI)
static void listed_part(const struct byte_lanes *query, const Py_buffer *part, int64_t width) {
    const int64_t *offset = part[OFFSETS].buf, *place = part[LISTED_PLACES].buf;
    const int64_t count = part[LISTED_FOUND].len / 4;
    const int8_t *bytes = part[BYTES].buf;
    for (int64_t i = 0; i < count; i++) {
        /* Listed bags lie anywhere: the next is fetched while this one is compared. */
        const int64_t next = place[i + 1 < count ? i + 1 : i], end = offset[next + 1] * width;
        for (int64_t at = offset[next] * width; at < end; at += 64) __builtin_prefetch(bytes + at, 0, 2);
        ((float *)part[LISTED_FOUND].buf)[i] = listed_bound(
            query, bytes + offset[place[i]] * width, offset[place[i] + 1] - offset[place[i]],
            ((const float *)part[STEPS].buf)[place[i]], ((const float *)part[OFFS].buf)[place[i]]);
    }
}
#endif

static PyObject *listed(PyObject *self, PyObject *args) {
    (void)self;
    long long d;
    int bad, short_of_memory = 0;
    Py_ssize_t count;
    PyObject *parts;
    Py_buffer words;
    if (!PyArg_ParseTuple(args, "Oy*L", &parts, &words, &d)) return NULL;
    Py_buffer *held = taken(parts, LISTED_ARRAYS, &count);
    if (held) {
        const int64_t width = (d + 3) / 4 * 4;
        bad = d < 1 || d > 512 || words.len < d * 4 || words.len % (d * 4);
        for (Py_ssize_t i = 0; !bad && i < count; i++) bad = !listed_fit(held + i * LISTED_ARRAYS, width);
        if (bad) PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
#if defined(VNNI)
        if (!bad && !has_bytes()) PyErr_SetString(PyExc_ValueError, "this processor has no products of bytes");
        if (!PyErr_Occurred()) {
            Py_BEGIN_ALLOW_THREADS
            struct byte_lanes query;
            short_of_memory = !set_byte_lanes(&query, words.buf, words.len / (d * 4), d);
            for (Py_ssize_t i = 0; !short_of_memory && i < count; i++)
                listed_part(&query, held + i * LISTED_ARRAYS, width);
            if (!short_of_memory) free(query.nearest);
            Py_END_ALLOW_THREADS
        }
#else
        if (!bad) PyErr_SetString(PyExc_ValueError, "this processor has no products of bytes");
#endif
        let_go(held, count * LISTED_ARRAYS);
    }
    if (short_of_memory) PyErr_NoMemory();
    PyBuffer_Release(&words);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* look([(codes, starts, counts, places, found), ...], table): the mean of table[code] over the words of each bag. */
enum { CODES, STARTS, COUNTS, LOOK_PLACES, LOOK_FOUND, LOOK_ARRAYS };

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
    const int64_t *start = part[STARTS].buf, *place = part[LOOK_PLACES].buf;
    const int64_t groups = part[STARTS].len / 8 - 1, bags = part[LOOK_FOUND].len / 4;
    if (groups < 0 || start[0] < 0 || part[COUNTS].len != groups * LANES * 4 ||
        part[LOOK_PLACES].len != 2 * part[COUNTS].len || part[CODES].len % (LANES * 2) || part[CODES].len / (LANES * 2) != start[groups])
        return 0;
    for (int64_t g = 0; g < groups; g++)
        if (start[g] > start[g + 1]) return 0;
    for (int64_t i = 0; i < groups * LANES; i++)
        if (place[i] < -1 || place[i] >= bags) return 0;
    return 1;
}

static void look_part(const Py_buffer *part, const float *table, int64_t entries) {
    const int64_t *start = part[STARTS].buf, *place = part[LOOK_PLACES].buf;
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
            if (place[at] >= 0) ((float *)part[LOOK_FOUND].buf)[place[at]] = sum[lane] / (float)(count > 0 ? count : 1);
        }
    }
}

static PyObject *look(PyObject *self, PyObject *args) {
    (void)self;
    Py_ssize_t count;
    PyObject *parts;
    Py_buffer table;
    if (!PyArg_ParseTuple(args, "Oy*", &parts, &table)) return NULL;
    Py_buffer *held = taken(parts, LOOK_ARRAYS, &count);
    if (held) {
        int bad = table.len < 4;
        for (Py_ssize_t i = 0; !bad && i < count; i++) bad = !look_fits(held + i * LOOK_ARRAYS);
        if (bad) PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; !bad && i < count; i++) look_part(held + i * LOOK_ARRAYS, table.buf, table.len / 4);
        Py_END_ALLOW_THREADS
        let_go(held, count * LOOK_ARRAYS);
    }
    PyBuffer_Release(&table);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *in_bytes(PyObject *self, PyObject *none) {
    (void)self, (void)none;
#if defined(VNNI)
    return PyBool_FromLong(has_bytes());
#else
    return PyBool_FromLong(0);
#endif
}

static PyMethodDef methods[] = {
    {"in_bytes", in_bytes, METH_NOARGS, "Whether this processor multiplies bytes."},
    {"below", below, METH_VARARGS, "Lower bounds of Chamfer in products of bytes."},
    {"rows", rows, METH_VARARGS, "Chamfer of one query with a list of bags, where they lie."},
    {"listed", listed, METH_VARARGS, "The same by words in bytes: lower bounds."},
    {"look", look, METH_VARARGS, "Means of looked-up values over the words of packed bags."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_bounds", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__bounds(void) { return PyModule_Create(&module); }
