/* Lower bounds of Chamfer distances: the native half of bounds.py, which documents the layout and the formulas.
 *
 * below:  one query against all bags, in int8 products, which the processor computes four times as fast as those of
 *         floats. The error of rounding to int8 is known exactly and subtracted, so that the bound holds.
 * rows:   one query against a list of bags, read in place, in float32: nearly the distance itself.
 * listed: the same in int8.
 * look:   one table look-up per prototype of every bag, for shortlists.
 *
 * All release the Python lock while they compute; bounds.py runs them in several threads over ranges.
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
#define MARGIN 0x1p-20f /* relative: more than the accumulated rounding error of a float32 expression */

/* Zeros at a multiple of 64 bytes: a vector across two cache lines costs two loads. NULL: out of memory. */
static void *zeros(int64_t count) {
    const size_t size = ((size_t)count * 4 + 63) / 64 * 64;
    void *memory = aligned_alloc(64, size);
    if (memory) memset(memory, 0, size);
    return memory;
}

/* One query, its prototypes side by side in lanes, for products with the prototypes of one bag. */
struct lanes {
    const float *tile;  /* [d][stride] */
    const float *norms; /* [stride] half squared norms; infinite for lanes without a prototype */
    float *nearest;     /* [stride], scratch memory */
    int64_t prototypes, stride, d;
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
#include "_look.h"

/* below(tiles, norms, steps, offs, starts, counts, indices, own, d, found, first, last): fills `found` [bags] at the
 * indices of the groups [first, last). */
static PyObject *below(PyObject *self, PyObject *args) {
    (void)self;
    long long d, first, last;
    int bad = 0, short_of_memory = 0;
    Py_buffer tiles, norms, steps, offs, starts, counts, indices, own, found;
    if (!PyArg_ParseTuple(
            args, "y*y*y*y*y*y*y*y*Lw*LL", &tiles, &norms, &steps, &offs, &starts, &counts, &indices, &own, &d, &found,
            &first, &last))
        return NULL;
    const int64_t *start = starts.buf, *index = indices.buf;
    const int64_t groups = starts.len / 8 - 1, quads = (d + 3) / 4, bags = found.len / 4;
    /* bounds.py has checked shapes and dtypes; these checks prevent reads beyond an array. */
    bad = groups < 0 || d < 1 || d > 2048 || first < 0 || last > groups || first > last || start[0] < 0 ||
          own.len < d * 4 || own.len % (d * 4) || counts.len != groups * LANES * 4 || steps.len != counts.len ||
          offs.len != counts.len || indices.len != 2 * counts.len || norms.len != start[groups] * LANES * 4 ||
          tiles.len != start[groups] * quads * LANES * 4;
    for (int64_t g = 0; !bad && g < groups; g++) bad = start[g] > start[g + 1];
    for (int64_t i = 0; !bad && i < groups * LANES; i++) bad = index[i] < -1 || index[i] >= bags;
    if (bad) PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
#if defined(VNNI)
    if (!bad && !has_bytes()) PyErr_SetString(PyExc_ValueError, "this processor has no products of bytes");
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        struct bytes query;
        short_of_memory = !set_bytes(&query, own.buf, own.len / (d * 4), d);
        for (int64_t g = first; !short_of_memory && g < last; g++) {
            const struct group group = {
                .tiles = (const uint8_t *)tiles.buf + start[g] * quads * LANES * 4,
                .norms = (const float *)norms.buf + start[g] * LANES,
                .steps = (const float *)steps.buf + g * LANES,
                .offs = (const float *)offs.buf + g * LANES,
                .counts = (const int32_t *)counts.buf + g * LANES,
                .slots = start[g + 1] - start[g],
            };
            float bounds[LANES];
            compare(&query, &group, bounds);
            for (int lane = 0; lane < LANES; lane++)
                if (index[g * LANES + lane] >= 0) ((float *)found.buf)[index[g * LANES + lane]] = bounds[lane];
        }
        if (!short_of_memory) free(query.own);
        Py_END_ALLOW_THREADS
    }
#else
    if (!bad) PyErr_SetString(PyExc_ValueError, "this processor has no products of bytes");
#endif
    if (short_of_memory) PyErr_NoMemory();
    Py_buffer *buffers[] = {&tiles, &norms, &steps, &offs, &starts, &counts, &indices, &own, &found};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) PyBuffer_Release(buffers[i]);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* Acquires the buffers of `parts`, a list of tuples of `width` arrays, of which the last is an output: all shards in
 * one call, since one call per shard would take longer than the work on some. NULL: an error is set. */
static Py_buffer *take_buffers(PyObject *parts, int width, Py_ssize_t *count) {
    *count = PyList_Check(parts) ? PyList_Size(parts) : -1;
    Py_buffer *buffers = *count >= 0 ? malloc((size_t)(*count * width + 1) * sizeof *buffers) : NULL;
    if (!buffers) {
        if (*count >= 0) return (Py_buffer *)PyErr_NoMemory();
        PyErr_SetString(PyExc_TypeError, "a list of tuples of arrays is needed");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < *count * width; i++) {
        PyObject *part = PyList_GetItem(parts, i / width), *array = NULL;
        if (part && PyTuple_Check(part) && PyTuple_Size(part) == width) array = PyTuple_GetItem(part, i % width);
        if (part && !array && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a part has other arrays");
        if (!array || PyObject_GetBuffer(array, buffers + i, i % width == width - 1 ? PyBUF_WRITABLE : PyBUF_SIMPLE)) {
            while (i--) PyBuffer_Release(buffers + i);
            free(buffers);
            return NULL;
        }
    }
    return buffers;
}

static void release_buffers(Py_buffer *buffers, Py_ssize_t count) {
    while (count--) PyBuffer_Release(buffers + count);
    free(buffers);
}

/* Whether all `indices` are bags whose rows, by `offsets`, are within `rows`, and `found` has one element for each. */
static int indices_fit(const Py_buffer *offsets, const Py_buffer *indices, const Py_buffer *found, int64_t rows) {
    const int64_t *offset = offsets->buf, *index = indices->buf;
    const int64_t bags = offsets->len / 8 - 1, count = found->len / 4;
    if (indices->len != 8 * count) return 0;
    for (int64_t i = 0; i < count; i++)
        if (index[i] < 0 || index[i] >= bags || offset[index[i]] < 0 || offset[index[i]] >= offset[index[i] + 1] ||
            offset[index[i] + 1] > rows)
            return 0;
    return 1;
}

/* rows([(prototypes, offsets, indices, found), ...], level, own, d, shrink): fills each `found` with the distances of
 * the query with prototypes `own` [.][d] to the bags at `indices`, whose prototypes are rows of `prototypes` [.][d]. */
enum { PROTOTYPES, ROW_OFFSETS, ROW_INDICES, ROW_FOUND, ROW_ARRAYS };

static void rows_part(rower bound, const struct lanes *query, const Py_buffer *part) {
    const int64_t *offset = part[ROW_OFFSETS].buf, *index = part[ROW_INDICES].buf;
    const int64_t count = part[ROW_FOUND].len / 4, d = query->d;
    const float *prototypes = part[PROTOTYPES].buf;
    for (int64_t i = 0; i < count; i++) {
        /* Listed bags are scattered in memory: prefetch the next while this one is compared. */
        const int64_t next = index[i + 1 < count ? i + 1 : i], end = offset[next + 1] * d;
        for (int64_t at = offset[next] * d; at < end; at += 16) __builtin_prefetch(prototypes + at, 0, 2);
        ((float *)part[ROW_FOUND].buf)[i] =
            bound(query, prototypes + offset[index[i]] * d, offset[index[i] + 1] - offset[index[i]]);
    }
}

/* Lays out the prototypes [count][d] of one query in lanes, with scratch memory. False: out of memory; else the caller
 * frees `tile`. */
static int set_lanes(struct lanes *query, const float *own, int64_t count, int64_t d, float shrink) {
    const int64_t stride = (count + LANES - 1) / LANES * LANES;
    float *memory = zeros(stride * (d + 2));
    if (!memory) return 0;
    float *norms = memory + stride * d;
    for (int64_t i = 0; i < stride; i++) {
        double norm = 0;
        for (int64_t t = 0; i < count && t < d; t++) {
            const float value = own[i * d + t];
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
    Py_buffer own;
    if (!PyArg_ParseTuple(args, "Osy*Lf", &parts, &name, &own, &d, &shrink)) return NULL;
    const rower bound = row_kernel(name);
    Py_buffer *buffers = take_buffers(parts, ROW_ARRAYS, &count);
    if (buffers) {
        int bad = d < 1 || own.len < d * 4 || own.len % (d * 4);
        for (Py_ssize_t i = 0; !bad && i < count; i++) {
            const Py_buffer *part = buffers + i * ROW_ARRAYS;
            const int64_t rows = part[PROTOTYPES].len / (d * 4);
            bad = !indices_fit(part + ROW_OFFSETS, part + ROW_INDICES, part + ROW_FOUND, rows);
        }
        if (bad) PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        if (!bound) PyErr_SetString(PyExc_ValueError, "no such kernel on this machine");
        if (!PyErr_Occurred()) {
            Py_BEGIN_ALLOW_THREADS
            struct lanes query;
            short_of_memory = !set_lanes(&query, own.buf, own.len / (d * 4), d, shrink);
            for (Py_ssize_t i = 0; !short_of_memory && i < count; i++)
                rows_part(bound, &query, buffers + i * ROW_ARRAYS);
            if (!short_of_memory) free((void *)query.tile);
            Py_END_ALLOW_THREADS
        }
        release_buffers(buffers, count * ROW_ARRAYS);
    }
    if (short_of_memory) PyErr_NoMemory();
    PyBuffer_Release(&own);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* listed([(bytes, offsets, steps, offs, indices, found), ...], own, d): the same as `rows`, by int8 prototypes. */
enum { BYTES, OFFSETS, STEPS, OFFS, LISTED_INDICES, LISTED_FOUND, LISTED_ARRAYS };

static int listed_fit(const Py_buffer *part, int64_t width) {
    const int64_t bags = part[OFFSETS].len / 8 - 1;
    return part[STEPS].len == bags * 4 && part[OFFS].len == bags * 4 &&
           indices_fit(part + OFFSETS, part + LISTED_INDICES, part + LISTED_FOUND, part[BYTES].len / width);
}

#if defined(VNNI)
static void listed_part(const struct byte_lanes *query, const Py_buffer *part, int64_t width) {
    const int64_t *offset = part[OFFSETS].buf, *index = part[LISTED_INDICES].buf;
    const int64_t count = part[LISTED_FOUND].len / 4;
    const int8_t *bytes = part[BYTES].buf;
    for (int64_t i = 0; i < count; i++) {
        /* Listed bags are scattered in memory: prefetch the next while this one is compared. */
        const int64_t next = index[i + 1 < count ? i + 1 : i], end = offset[next + 1] * width;
        for (int64_t at = offset[next] * width; at < end; at += 64) __builtin_prefetch(bytes + at, 0, 2);
        ((float *)part[LISTED_FOUND].buf)[i] = listed_bound(
            query, bytes + offset[index[i]] * width, offset[index[i] + 1] - offset[index[i]],
            ((const float *)part[STEPS].buf)[index[i]], ((const float *)part[OFFS].buf)[index[i]]);
    }
}
#endif

static PyObject *listed(PyObject *self, PyObject *args) {
    (void)self;
    long long d;
    int bad, short_of_memory = 0;
    Py_ssize_t count;
    PyObject *parts;
    Py_buffer own;
    if (!PyArg_ParseTuple(args, "Oy*L", &parts, &own, &d)) return NULL;
    Py_buffer *buffers = take_buffers(parts, LISTED_ARRAYS, &count);
    if (buffers) {
        const int64_t width = (d + 3) / 4 * 4;
        bad = d < 1 || d > 512 || own.len < d * 4 || own.len % (d * 4);
        for (Py_ssize_t i = 0; !bad && i < count; i++) bad = !listed_fit(buffers + i * LISTED_ARRAYS, width);
        if (bad) PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
#if defined(VNNI)
        if (!bad && !has_bytes()) PyErr_SetString(PyExc_ValueError, "this processor has no products of bytes");
        if (!PyErr_Occurred()) {
            Py_BEGIN_ALLOW_THREADS
            struct byte_lanes query;
            short_of_memory = !set_byte_lanes(&query, own.buf, own.len / (d * 4), d);
            for (Py_ssize_t i = 0; !short_of_memory && i < count; i++)
                listed_part(&query, buffers + i * LISTED_ARRAYS, width);
            if (!short_of_memory) free(query.nearest);
            Py_END_ALLOW_THREADS
        }
#else
        if (!bad) PyErr_SetString(PyExc_ValueError, "this processor has no products of bytes");
#endif
        release_buffers(buffers, count * LISTED_ARRAYS);
    }
    if (short_of_memory) PyErr_NoMemory();
    PyBuffer_Release(&own);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *look(PyObject *self, PyObject *args) {
    (void)self;
    Py_ssize_t count;
    PyObject *parts;
    Py_buffer table;
    if (!PyArg_ParseTuple(args, "Oy*", &parts, &table)) return NULL;
    Py_buffer *buffers = take_buffers(parts, LOOK_ARRAYS, &count);
    if (buffers) {
        int bad = table.len < 4;
        for (Py_ssize_t i = 0; !bad && i < count; i++) bad = !look_fits(buffers + i * LOOK_ARRAYS);
        if (bad) PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
        Py_BEGIN_ALLOW_THREADS
        for (Py_ssize_t i = 0; !bad && i < count; i++) look_part(buffers + i * LOOK_ARRAYS, table.buf, table.len / 4);
        Py_END_ALLOW_THREADS
        release_buffers(buffers, count * LOOK_ARRAYS);
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
    {"in_bytes", in_bytes, METH_NOARGS, "Whether this processor has int8 products (AVX512-VNNI)."},
    {"below", below, METH_VARARGS, "Lower bounds of Chamfer distances in int8 products."},
    {"rows", rows, METH_VARARGS, "Chamfer distances of one query to a list of bags, read in place."},
    {"listed", listed, METH_VARARGS, "The same by int8 prototypes: lower bounds."},
    {"look", look, METH_VARARGS, "Means of looked-up values over the prototypes of packed bags."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_bounds", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__bounds(void) { return PyModule_Create(&module); }
