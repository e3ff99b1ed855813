/* Names and vectors of one instruction set, by the LEVEL and WIDTH that are defined where they are used: _tile.h and
 * _rows.h, which are included once for each. */

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(x) JOIN(x, LEVEL)
#define PARTS (LANES / WIDTH)
#define VEC NAME(vec)
#define IVEC NAME(ivec)
