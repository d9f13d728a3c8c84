/**
 * Just enough of a WebAssembly assembler to write 64-bit arithmetic as readable expressions: JavaScript has no 64-bit
 * multiplication that is not a BigInt, and BigInt costs 100 times as much. Each function returns code that leaves its
 * value on the stack.
 */
export type Code = readonly number[];

/** A local variable or parameter by its position. */
export type Local = number;

export type ValueType = 'i32' | 'i64';

const TYPE_BYTES = { i32: 0x7f, i64: 0x7e } as const;

function signedLeb(value: bigint): Code {
  const bytes: number[] = [];
  for (let rest = value; ; ) {
    const byte = Number(rest & 0x7fn);
    rest >>= 7n;
    const isLast = (rest === 0n && (byte & 0x40) === 0) || (rest === -1n && (byte & 0x40) !== 0);
    bytes.push(isLast ? byte : byte | 0x80);
    if (isLast) return bytes;
  }
}

function leb(value: number): Code {
  const bytes: number[] = [];
  for (let rest = value; ; ) {
    const byte = rest & 0x7f;
    rest >>>= 7;
    bytes.push(rest === 0 ? byte : byte | 0x80);
    if (rest === 0) return bytes;
  }
}

export const i32 = (value: number): Code => [0x41, ...signedLeb(BigInt(value | 0))];
export const i64 = (value: bigint): Code => [0x42, ...signedLeb(BigInt.asIntN(64, value))];
export const get = (local: Local): Code => [0x20, ...leb(local)];
export const set = (local: Local, value: Code): Code => [...value, 0x21, ...leb(local)];
export const call = (index: number, ...args: readonly Code[]): Code => [...args.flat(), 0x10, ...leb(index)];

const binary =
  (opcode: number) =>
  (left: Code, right: Code): Code => [...left, ...right, opcode];

/** Operations on 32-bit integers: addresses and lengths. */
export const int = {
  add: binary(0x6a),
  sub: binary(0x6b),
  mul: binary(0x6c),
  and: binary(0x71),
  shr: binary(0x76),
  atMost: binary(0x4d),
  below: binary(0x49),
  ofLong: (value: Code): Code => [...value, 0xa7],
} as const;

/** Operations on 64-bit integers, all modulo 2^64. */
export const long = {
  add: binary(0x7c),
  sub: binary(0x7d),
  mul: binary(0x7e),
  and: binary(0x83),
  or: binary(0x84),
  xor: binary(0x85),
  shl: (value: Code, bits: number): Code => [...value, ...i64(BigInt(bits)), 0x86],
  shr: (value: Code, bits: number): Code => [...value, ...i64(BigInt(bits)), 0x88],
  rotl: (value: Code, bits: number): Code => [...value, ...i64(BigInt(bits)), 0x89],
  ofInt: (value: Code): Code => [...value, 0xad],
  load: (address: Code, offset = 0): Code => [...address, 0x29, 0, ...leb(offset)],
  load32: (address: Code, offset = 0): Code => [...address, 0x35, 0, ...leb(offset)],
  load8: (address: Code, offset = 0): Code => [...address, 0x31, 0, ...leb(offset)],
  store: (address: Code, value: Code, offset = 0): Code => [...address, ...value, 0x37, 0, ...leb(offset)],
} as const;

/** Runs `body` when `condition` is not 0. */
export const when = (condition: Code, ...body: readonly Code[]): Code => [
  ...condition,
  0x04,
  0x40,
  ...body.flat(),
  0x0b,
];
/** Ends the function with `value`. */
export const giveBack = (value: Code): Code => [...value, 0x0f];
/** Runs `body` while `condition` is not 0. */
export const whileTrue = (condition: Code, ...body: readonly Code[]): Code => [
  ...[0x03, 0x40],
  ...[...condition, 0x04, 0x40, ...body.flat(), 0x0c, 0x01, 0x0b],
  0x0b,
];

export interface WasmFunction {
  readonly params: readonly ValueType[];
  readonly result?: ValueType;
  readonly locals?: readonly ValueType[];
  readonly body: readonly Code[];
  /** Name under which the function is exported. */
  readonly name?: string;
}

/** Puts functions, called by their position, and one exported memory `memory` together. */
export function assembleModule(functions: readonly WasmFunction[], pages: number): Uint8Array<ArrayBuffer> {
  const types = functions.map(({ params, result }) => [
    0x60,
    ...vector(params.map((type) => [TYPE_BYTES[type]])),
    ...vector(result === undefined ? [] : [[TYPE_BYTES[result]]]),
  ]);
  const exports = functions.flatMap(({ name }, index) =>
    name === undefined ? [] : [[...text(name), 0x00, ...leb(index)]],
  );
  const bodies = functions.map(({ locals = [], body }) => {
    const code = [...vector(locals.map((type) => [1, TYPE_BYTES[type]])), ...body.flat(), 0x0b];
    return [...leb(code.length), ...code];
  });
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00],
    ...section(1, vector(types)),
    ...section(3, vector(functions.map((_, index) => leb(index)))),
    ...section(5, vector([[0x01, ...leb(pages), ...leb(pages)]])),
    ...section(7, vector([[...text('memory'), 0x02, 0x00], ...exports])),
    ...section(10, vector(bodies)),
  ]);
}

function vector(items: readonly Code[]): Code {
  return [...leb(items.length), ...items.flat()];
}

function section(id: number, content: Code): Code {
  return [id, ...leb(content.length), ...content];
}

function text(value: string): Code {
  return vector([...Buffer.from(value)].map((byte) => [byte]));
}
