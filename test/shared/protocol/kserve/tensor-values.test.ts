import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readTensor, writeTensor } from '../../../../shared/protocol/index.ts';
import { BF16, FP16, fromBits16, toBits16 } from '../../../../shared/protocol/kserve/tensor-values.ts';

const whole = (bits: number, isSigned: boolean) =>
  isSigned
    ? fc.integer({ min: -(2 ** (bits - 1)), max: 2 ** (bits - 1) - 1 })
    : fc.integer({ min: 0, max: 2 ** bits - 1 });
const half = (format: typeof FP16) =>
  fc
    .integer({ min: 0, max: 0xffff })
    .map((bits) => fromBits16(bits, format))
    .filter((value) => !Number.isNaN(value));

/** Elements of each type, as code has them. */
const ELEMENTS: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  Bool: fc.integer({ min: 0, max: 1 }),
  Uint8: whole(8, false),
  Uint16: whole(16, false),
  Uint32: whole(32, false),
  Uint64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  Int8: whole(8, true),
  Int16: whole(16, true),
  Int32: whole(32, true),
  Int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  Float16: half(FP16),
  BFloat16: half(BF16),
  Float32: fc.float(),
  Float64: fc.double(),
  Bytes: fc.uint8Array({ maxLength: 20 }).map((bytes) => Buffer.from(bytes)),
};

describe('tensors in the code of a model', () => {
  it.each(Object.entries(ELEMENTS))(
    'of %s are read as they were written, from a list or from their own array',
    (type, element) => {
      fc.assert(
        fc.property(fc.array(element, { maxLength: 9 }), (values) => {
          const elements = values as readonly number[];
          const read = readTensor(writeTensor('x', type, [elements.length], elements));
          expect([...read]).toEqual(elements);
          expect([...readTensor(writeTensor('x', type, [1, elements.length], read))]).toEqual(elements);
        }),
      );
    },
  );

  it('are read wherever their bytes begin, and from the lists of other frontends', () => {
    const { data } = writeTensor('x', 'Int64', [2], [1n, -2n]);
    const moved = Buffer.concat([Buffer.from([7]), data.values as Uint8Array]).subarray(1);
    expect(readTensor({ data: { ...data, values: moved } })).toEqual(BigInt64Array.of(1n, -2n));
    expect(readTensor({ data: { data_type: 'Float16', values: [0x3e00, 0xc080] } })).toEqual(
      Float32Array.of(1.5, -2.25),
    );
    expect(readTensor({ data: { data_type: 'Bytes', values: ['é', [0, 255]] } })).toEqual([
      Buffer.from('é'),
      Buffer.from([0, 255]),
    ]);
  });

  it.each([
    ['an unknown type', ['INT32', [1], [1]], /data type "INT32": expected Bool, .*, Bytes, BFloat16/],
    [
      'a shape of another size',
      ['Int32', [2, 2], [1, 2, 3]],
      'tensor x (Int32): shape [2, 2] stands for 4 elements, got 3',
    ],
    ['a negative dimension', ['Int32', [-1], [1]], 'tensor x (Int32): Shape contains negative dimension: -1'],
    ['a fraction', ['Int32', [1], [1.5]], 'tensor x (Int32): an element must be a whole number, got 1.5'],
    ['a number out of range', ['Uint8', [1], [300]], /tensor x \(Uint8\): .*300/],
    ['a number beyond 64 bits', ['Int64', [1], [2n ** 63n]], /tensor x \(Int64\): .*9223372036854775808/],
    ['a text as a number', ['Float16', [1], ['1']], 'tensor x (Float16): an element must be a number, got 1'],
    ['a number as a text', ['Bytes', [1], [1]], 'tensor x (Bytes): an element must be a text or bytes, got 1'],
  ] as const)('are refused with %s', (_, [type, shape, values], message) => {
    expect(() => writeTensor('x', type, shape, values as readonly number[])).toThrow(message);
  });
});

describe.each([
  ['FP16', FP16, 65504],
  ['BF16', BF16, 3.3895313892515355e38],
] as const)('%s', (_, format, largest) => {
  const finite = Array.from({ length: 0x8000 }, (_each, bits) => ({ bits, value: fromBits16(bits, format) })).filter(
    ({ value }) => Number.isFinite(value),
  );

  it('comes back from its number, whichever of all patterns', () => {
    for (let bits = 0; bits < 0x10000; bits++) {
      const value = fromBits16(bits, format);
      const back = toBits16(value, format);
      if (Number.isNaN(value)) expect(fromBits16(back, format)).toBeNaN();
      else if (back !== bits) expect(back).toBe(bits);
    }
    expect(finite.at(-1)?.value).toBe(largest);
  });

  it('is the nearest to a number, of two that are as near the even one', () => {
    const exact = fc.oneof(fc.double({ min: -2 * largest, max: 2 * largest }), fc.float());
    const between = fc
      .integer({ min: 0, max: finite.length - 2 })
      .map((at) => (finite[at]!.value + finite[at + 1]!.value) / 2);
    fc.assert(
      fc.property(
        fc.oneof(exact, between).filter((value) => !Number.isNaN(value)),
        (value) => {
          const size = Math.abs(value);
          const sign = Object.is(Math.sign(value), -1) || Object.is(value, -0) ? 0x8000 : 0;
          const above = finite.findIndex((each) => each.value >= size);
          const wanted = above < 0 ? beyond(size) : nearest(above, size);
          expect(toBits16(value, format)).toBe(sign | wanted);
        },
      ),
      { numRuns: 300 },
    );
  });

  function nearest(above: number, size: number): number {
    const [low, high] = [finite[Math.max(above - 1, 0)]!, finite[above]!];
    const [below, over] = [size - low.value, high.value - size];
    if (below === over) return low.bits % 2 === 0 ? low.bits : high.bits;
    return below < over ? low.bits : high.bits;
  }

  /** Half a step beyond the largest number is infinity. */
  function beyond(size: number): number {
    const [last, before] = [finite.at(-1)!, finite.at(-2)!];
    return size < last.value + (last.value - before.value) / 2 ? last.bits : last.bits + 1;
  }
});
