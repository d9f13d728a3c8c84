/* Numbers of 16 bits, for which JavaScript has no arrays. */

/** One of the two formats: bits of the fraction, and what is added to an exponent. */
interface Format {
  readonly fractionBits: number;
  readonly bias: number;
}

/** FP16, as IEEE 754 has it. */
export const FP16: Format = { fractionBits: 10, bias: 15 };
/** BF16: the upper half of a number of 32 bits. */
export const BF16: Format = { fractionBits: 7, bias: 127 };

/** The number that a pattern of 16 bits stands for. */
export function fromBits16(bits: number, { fractionBits, bias }: Format): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const scale = 2 ** fractionBits;
  const fraction = bits & (scale - 1);
  const exponent = (bits & 0x7fff) >> fractionBits;
  if (exponent === 2 * bias + 1) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** (1 - bias - fractionBits);
  return sign * (1 + fraction / scale) * 2 ** (exponent - bias);
}

const double = new DataView(new ArrayBuffer(8));

/** The nearest pattern, of two that are as near the even one; infinity beyond the largest number. */
export function toBits16(value: number, { fractionBits, bias }: Format): number {
  double.setFloat64(0, value);
  const high = double.getUint32(0);
  const sign = (high >>> 16) & 0x8000;
  const infinity = (2 * bias + 1) << fractionBits;
  if (Number.isNaN(value)) return infinity | (1 << (fractionBits - 1));
  const exponent = Math.max(((high >>> 20) & 0x7ff) - 1023, 1 - bias);
  if (exponent > bias) return sign | infinity;
  const steps = roundHalfEven(Math.abs(value) / 2 ** (exponent - fractionBits));
  // What is rounded up to the next power of two carries into the exponent, from the largest number into infinity.
  const scale = 2 ** fractionBits;
  return sign | (steps < scale ? steps : ((exponent + bias) << fractionBits) + (steps - scale));
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return rest < 0.5 ? floor : floor + 1;
  return floor % 2 === 0 ? floor : floor + 1;
}
