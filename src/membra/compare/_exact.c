/* Squared distances of all prototypes of one bag to all prototypes of another, in double precision: the native half of
 * `distance.costs`, several times as fast as SciPy, which a search then need not load.
 *
 * The result has the same bits as SciPy's cdist: each sum is taken in the order of the coordinates, and no product is
 * fused with an addition (the extension is compiled with -ffp-contract=off). Prototypes of the second bag are side by
 * side, so that the lanes of a vector hold sums of different pairs, and no sum is taken across lanes.
 */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

/* found[i][j] = sum_t (prototypes[i][t] - columns[t][j])^2 for i < count, j < width */
#define SQUARES(NAME, TARGET)                                                                                      \
    TARGET static void NAME(                                                                                       \
        const float *prototypes, int64_t count, const double *columns, int64_t width, int64_t d, double *found) {  \
        for (int64_t i = 0; i < count; i++) {                                                                      \
            double *own = found + i * width;                                                                       \
            for (int64_t j = 0; j < width; j++) own[j] = 0;                                                        \
            for (int64_t t = 0; t < d; t++) {                                                                      \
                const double value = prototypes[i * d + t], *column = columns + t * width;                         \
                for (int64_t j = 0; j < width; j++) {                                                              \
                    const double gap = value - column[j];                                                          \
                    own[j] += gap * gap;                                                                           \
                }                                                                                                  \
            }                                                                                                      \
        }                                                                                                          \
    }

SQUARES(squares_base, )
#if defined(__x86_64__) && defined(__GNUC__)
#define X86 1
SQUARES(squares_avx2, __attribute__((target("avx2"))))
#endif

/* squares(prototypes, others, d, found): prototypes [k][d] and others [l][d] float32, found [k][l] float64. */
static PyObject *squares(PyObject *self, PyObject *args) {
    (void)self;
    long long d;
    int short_of_memory = 0;
    Py_buffer prototypes, others, found;
    if (!PyArg_ParseTuple(args, "y*y*Lw*", &prototypes, &others, &d, &found)) return NULL;
    const int64_t count = d > 0 ? prototypes.len / (d * 4) : 0, width = d > 0 ? others.len / (d * 4) : 0;
    /* distance.py has checked shapes and dtypes; this check prevents reads beyond an array. */
    if (d < 1 || count * d * 4 != prototypes.len || width * d * 4 != others.len || found.len != count * width * 8)
        PyErr_SetString(PyExc_ValueError, "the arrays do not fit together");
    else {
        Py_BEGIN_ALLOW_THREADS
        double *columns = malloc(sizeof(double) * (size_t)(d * width + 1));
        short_of_memory = !columns;
        for (int64_t j = 0; !short_of_memory && j < width; j++)
            for (int64_t t = 0; t < d; t++) columns[t * width + j] = ((const float *)others.buf)[j * d + t];
        if (!short_of_memory) {
#if defined(X86)
            __builtin_cpu_init();
            if (__builtin_cpu_supports("avx2"))
                squares_avx2(prototypes.buf, count, columns, width, d, found.buf);
            else
#endif
                squares_base(prototypes.buf, count, columns, width, d, found.buf);
        }
        free(columns);
        Py_END_ALLOW_THREADS
    }
    if (short_of_memory) PyErr_NoMemory();
    PyBuffer_Release(&prototypes);
    PyBuffer_Release(&others);
    PyBuffer_Release(&found);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"squares", squares, METH_VARARGS, "Squared distances of all prototypes of one bag to all prototypes of another."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_exact", NULL, 0, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__exact(void) { return PyModule_Create(&module); }
