/* Names and vector types of one instruction set, for _tile.h and _rows.h, which are included once for each. LEVEL and
 * WIDTH are defined before each inclusion. */

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(x) JOIN(x, LEVEL)
#define PARTS (LANES / WIDTH)
#define VEC NAME(vec)
#define IVEC NAME(ivec)
