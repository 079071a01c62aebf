/* Products of a few rows with matrices of 4 and 8 bit codes, by the byte products of AVX-512 VNNI.

   A number of an activation is a sum of digits, signed bytes, times a unit. Digits and codes are multiplied and summed
   as integers, which have no order; what is left in fp32 is summed in an order that K alone decides. So a row has the
   same bits alone and among any others, on any number of threads. Codes are read once for all rows. */

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define INLINE static inline __attribute__((always_inline))

typedef void (*parallel_t)(void (*)(void *), void *, unsigned, unsigned); /* GOMP_parallel of torch's own pool */

typedef struct {
    const uint8_t *codes;
    const void *rows; /* what was made of x */
    const float *scales;
    float *y;
    int64_t count, outputs, columns;
    int64_t stride; /* between the rows of y */
    int64_t next;
} product;

/* The threads take parts of the outputs one after the other: whoever is held up takes fewer. */
static void run(parallel_t parallel, void (*work)(void *), product *p, int64_t threads) {
    p->next = 0;
    if (threads > 1)
        parallel(work, p, (unsigned)threads, 0);
    else
        work(p);
}

INLINE int64_t taken(product *p, int64_t size) {
    return __atomic_fetch_add(&p->next, size, __ATOMIC_RELAXED);
}

INLINE float largest(const float *x, int64_t count) { /* NaN where one is */
    __m512 most = _mm512_setzero_ps();
    __mmask16 none = 0;
    for (int64_t at = 0; at < count; at += 16) {
        __m512 one = _mm512_loadu_ps(x + at);
        none |= _mm512_cmp_ps_mask(one, one, _CMP_UNORD_Q);
        most = _mm512_max_ps(most, _mm512_abs_ps(one));
    }
    return none ? NAN : _mm512_reduce_max_ps(most);
}

/* ---- 4 bits: weight = (code - 8) scale + zero, a scale and a zero for 32 columns ---- */

#define GROUP 32
#define GROUP_BYTES 320 /* of 16 outputs: 4 x 64 bytes of codes, then 16 pairs of a scale and a zero in bf16 */

#define AHEAD 4096 /* bytes that are asked for before they are needed: pages end more often than the memory is quick */

typedef struct {
    int8_t high[GROUP], low[GROUP];
    float unit, sum;  /* of the numbers, for the zeros */
    int32_t centre;   /* -8 times the sum of the digits */
    int32_t unused;
} group4;

static void digits4(const float *x, group4 *group) {
    float unit = largest(x, GROUP) * (1.0f / 32639);
    unit = unit < 0x1p-100f ? 0x1p-100f : unit;
    __m512i sum = _mm512_setzero_si512();
    for (int at = 0; at < GROUP; at += 16) {
        __m512i number = _mm512_cvtps_epi32(_mm512_div_ps(_mm512_loadu_ps(x + at), _mm512_set1_ps(unit)));
        __m512i high = _mm512_srai_epi32(_mm512_add_epi32(number, _mm512_set1_epi32(128)), 8);
        _mm_storeu_si128((__m128i *)(group->high + at), _mm512_cvtepi32_epi8(high));
        _mm_storeu_si128((__m128i *)(group->low + at), _mm512_cvtepi32_epi8(number)); /* its lowest byte */
        sum = _mm512_add_epi32(sum, number);
    }
    int32_t total = _mm512_reduce_add_epi32(sum);
    group->unit = unit;
    group->sum = (float)total * unit;
    group->centre = -8 * total;
}

INLINE void block4(const int M, const product *p, int64_t block, int64_t row) {
    const int64_t groups = p->columns / GROUP;
    const uint8_t *codes = p->codes + block * groups * GROUP_BYTES;
    const group4 *mine = (const group4 *)p->rows + row * groups;
    const __m512i half = _mm512_set1_epi8(15);
    __m512 y[8];
#pragma GCC unroll 16
    for (int m = 0; m < M; m++)
        y[m] = _mm512_setzero_ps();
    for (int64_t g = 0; g < groups; g++, codes += GROUP_BYTES) {
        __m512i high[8], low[8];
#pragma GCC unroll 16
        for (int m = 0; m < M; m++) {
            high[m] = _mm512_setzero_si512();
            low[m] = _mm512_set1_epi32(mine[m * groups + g].centre);
        }
        for (int at = 0; at < GROUP_BYTES; at += 64)
            _mm_prefetch((const char *)codes + AHEAD + at, _MM_HINT_T0);
#pragma GCC unroll 16
        for (int j = 0; j < 4; j++) {
            __m512i both = _mm512_loadu_si512(codes + 64 * j);
            __m512i first = _mm512_and_si512(both, half);
            __m512i second = _mm512_and_si512(_mm512_srli_epi16(both, 4), half);
#pragma GCC unroll 16
            for (int m = 0; m < M; m++) {
                const group4 *one = &mine[m * groups + g];
                const int32_t *highs = (const int32_t *)one->high, *lows = (const int32_t *)one->low;
                high[m] = _mm512_dpbusd_epi32(high[m], first, _mm512_set1_epi32(highs[j]));
                low[m] = _mm512_dpbusd_epi32(low[m], first, _mm512_set1_epi32(lows[j]));
                high[m] = _mm512_dpbusd_epi32(high[m], second, _mm512_set1_epi32(highs[j + 4]));
                low[m] = _mm512_dpbusd_epi32(low[m], second, _mm512_set1_epi32(lows[j + 4]));
            }
        }
        __m512i pairs = _mm512_loadu_si512(codes + 256);
        __m512 scale = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
        __m512 zero = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(0xffff0000)));
#pragma GCC unroll 16
        for (int m = 0; m < M; m++) {
            const group4 *one = &mine[m * groups + g];
            __m512 sum = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high[m], 8), low[m]));
            y[m] = _mm512_fmadd_ps(_mm512_mul_ps(scale, _mm512_set1_ps(one->unit)), sum, y[m]);
            y[m] = _mm512_fmadd_ps(zero, _mm512_set1_ps(one->sum), y[m]);
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; m++)
        _mm512_storeu_ps(p->y + (row + m) * p->stride + 16 * block, y[m]);
}

static void work4(void *data) {
    product *p = data;
    const int64_t blocks = p->outputs / 16;
    for (int64_t at; (at = taken(p, 4)) < blocks;)
        for (int64_t block = at; block < at + 4 && block < blocks; block++) {
            int64_t row = 0, left;
            for (; (left = p->count - row) >= 8; row += 8)
                block4(8, p, block, row);
            if (left & 4)
                block4(4, p, block, row), row += 4;
            if (left & 2)
                block4(2, p, block, row), row += 2;
            if (left & 1)
                block4(1, p, block, row);
        }
}

int tandem_product4(parallel_t parallel, const uint8_t *codes, const float *x, float *y, int64_t count,
                    int64_t outputs, int64_t columns, int64_t threads) {
    const int64_t groups = count * columns / GROUP;
    group4 *rows = malloc(groups * sizeof(group4));
    if (!rows)
        return 1;
    for (int64_t at = 0; at < groups; at++)
        digits4(x + GROUP * at, rows + at);
    product p = {codes, rows, 0, y, count, outputs, columns, outputs, 0};
    run(parallel, work4, &p, threads);
    free(rows);
    return 0;
}

/* ---- 8 bits: weight = code scale, a scale for an output; three digits to a number, as in digits.py ---- */

#define TOP (127 << 16)
#define MIDDLE 0x808080

/* Of a row: `columns` bytes of every digit, lowest first, then the sums. */
typedef struct {
    float unit;
    int32_t centres[3]; /* -128 times the sum of the digits */
} row8;

INLINE int64_t stride8(const product *p) {
    return sizeof(row8) + 3 * p->columns;
}

static void digits8(const float *x, row8 *row, int64_t columns) {
    int8_t *digits = (int8_t *)(row + 1);
    float unit = largest(x, columns);
    unit = (unit < 0x1p-100f ? 0x1p-100f : unit) * (1.0f / TOP);
    row->unit = unit;
    int32_t sums[3] = {0, 0, 0};
    for (int64_t at = 0; at < columns; at += 16) {
        __m512 scaled = _mm512_div_ps(_mm512_loadu_ps(x + at), _mm512_set1_ps(unit));
        __m512i number = _mm512_cvttps_epi32(_mm512_add_ps(scaled, _mm512_set1_ps(MIDDLE)));
        number = _mm512_xor_si512(number, _mm512_set1_epi32(MIDDLE)); /* from 128 more to signed bytes */
#pragma GCC unroll 16
        for (int d = 0; d < 3; d++) {
            __m128i bytes = _mm512_cvtepi32_epi8(_mm512_srli_epi32(number, 8 * d));
            _mm_storeu_si128((__m128i *)(digits + d * columns + at), bytes);
            sums[d] += _mm512_reduce_add_epi32(_mm512_cvtepi8_epi32(bytes));
        }
    }
#pragma GCC unroll 16
    for (int d = 0; d < 3; d++)
        row->centres[d] = -128 * sums[d];
}

/* Loops over all sums are not nested: the compiler keeps an array in registers only where it unrolls at once. */
INLINE void block8(const int M, const product *p, int64_t block, int64_t row) {
    const uint8_t *codes = p->codes + block * 64 * p->columns;
    const __m512i half = _mm512_set1_epi8(-128);
    const char *mine = (const char *)p->rows + row * stride8(p);
    const int64_t stride = stride8(p), columns = p->columns;
    __m512i sums[24], digit[6], four[4]; /* a row's three digits, of each four times 16 outputs */
#pragma GCC unroll 24
    for (int i = 0; i < 12 * M; i++)
        sums[i] = _mm512_set1_epi32(((const row8 *)(mine + i / 12 * stride))->centres[i / 4 % 3]);
    for (int64_t k = 0; k < columns; k += 4, codes += 256) {
#pragma GCC unroll 4
        for (int n = 0; n < 4; n++) {
            _mm_prefetch((const char *)codes + AHEAD + 64 * n, _MM_HINT_T0);
            four[n] = _mm512_xor_si512(_mm512_loadu_si512(codes + 64 * n), half); /* 128 more, so no sign */
        }
#pragma GCC unroll 6
        for (int i = 0; i < 3 * M; i++) {
            const char *digits = mine + i / 3 * stride + sizeof(row8) + i % 3 * columns;
            digit[i] = _mm512_set1_epi32(*(const int32_t *)(digits + k));
        }
#pragma GCC unroll 24
        for (int i = 0; i < 12 * M; i++)
            sums[i] = _mm512_dpbusd_epi32(sums[i], four[i % 4], digit[i / 4]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4 * M; i++) {
        const __m512i *digit = sums + i / 4 * 12 + i % 4;
        const __m512 scale = _mm512_loadu_ps(p->scales + 64 * block + 16 * (i % 4));
        __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(digit[0]), scale);
        y = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(digit[4]), scale), _mm512_set1_ps(0x1p8f), y);
        y = _mm512_fmadd_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(digit[8]), scale), _mm512_set1_ps(0x1p16f), y);
        y = _mm512_mul_ps(y, _mm512_set1_ps(((const row8 *)(mine + i / 4 * stride))->unit));
        _mm512_storeu_ps(p->y + (row + i / 4) * p->stride + 64 * block + 16 * (i % 4), y);
    }
}

static void work8(void *data) {
    product *p = data;
    for (int64_t block; (block = taken(p, 1)) < p->outputs / 64;) {
        int64_t row = 0;
        for (; row + 2 <= p->count; row += 2)
            block8(2, p, block, row);
        if (row < p->count)
            block8(1, p, block, row);
    }
}

int tandem_product8(parallel_t parallel, const uint8_t *codes, const float *scales, const float *x, float *y,
                    int64_t count, int64_t outputs, int64_t columns, int64_t stride, int64_t threads) {
    product p = {codes, 0, scales, y, count, outputs, columns, stride, 0};
    char *rows = malloc(count * stride8(&p));
    if (!rows)
        return 1;
    for (int64_t row = 0; row < count; row++)
        digits8(x + row * columns, (row8 *)(rows + row * stride8(&p)), columns);
    p.rows = rows;
    run(parallel, work8, &p, threads);
    free(rows);
    return 0;
}

/* ---- RMS norm of rows in fp32 ---- */

void tandem_rms(const float *x, const float *weight, float *y, int64_t count, int64_t columns, float eps) {
    for (int64_t row = 0; row < count; row++, x += columns, y += columns) {
        __m512 sum = _mm512_setzero_ps();
        for (int64_t at = 0; at < columns; at += 16) {
            __m512 one = _mm512_loadu_ps(x + at);
            sum = _mm512_fmadd_ps(one, one, sum);
        }
        float square = _mm512_reduce_add_ps(sum) / (float)columns;
        __m512 scale = _mm512_set1_ps(1.0f / sqrtf(square + eps));
        for (int64_t at = 0; at < columns; at += 16) {
            __m512 one = _mm512_mul_ps(_mm512_loadu_ps(x + at), scale);
            _mm512_storeu_ps(y + at, _mm512_mul_ps(one, _mm512_loadu_ps(weight + at)));
        }
    }
}
