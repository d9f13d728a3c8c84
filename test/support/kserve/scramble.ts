import fc from 'fast-check';

/* Other bytes for the same KServe message: lists packed or not, messages in parts, unknown fields in between. */

/** Fields of a message that have more than one encoding, and what they hold. */
interface Layout {
  readonly [field: number]: Layout | ListKind;
}

const WIRE_TYPES = { varints: 0, fixed32: 5, fixed64: 1 } as const;
type ListKind = keyof typeof WIRE_TYPES;

const CONTENTS: Layout = {
  1: 'varints',
  2: 'varints',
  3: 'varints',
  4: 'varints',
  5: 'varints',
  6: 'fixed32',
  7: 'fixed64',
};
const TENSOR: Layout = { 3: 'varints', 5: CONTENTS };
/** Parameters are absent: the generated code reads no unknown fields in entries of a map. */
export const REQUEST: Layout = { 5: TENSOR, 6: {} };

interface Field {
  readonly number: number;
  readonly wireType: number;
  /** Content of a length-delimited field, or the bytes behind the tag of another field. */
  readonly bytes: Buffer;
}

function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return Buffer.from([...bytes, rest]);
}

function varintEnd(bytes: Buffer, from: number): number {
  let at = from;
  while ((bytes[at] ?? 0) >= 0x80) at++;
  return at + 1;
}

function numberAt(bytes: Buffer, from: number): number {
  let value = 0;
  for (let at = from, scale = 1; ; at++, scale *= 0x80) {
    value += ((bytes[at] ?? 0) & 0x7f) * scale;
    if ((bytes[at] ?? 0) < 0x80) return value;
  }
}

function fieldsOf(message: Buffer): readonly Field[] {
  const fields: Field[] = [];
  for (let at = 0; at < message.length; ) {
    const tag = numberAt(message, at);
    at = varintEnd(message, at);
    let from = at;
    if (tag % 8 === 2) {
      from = varintEnd(message, at);
      at = from + numberAt(message, at);
    } else at = tag % 8 === 0 ? varintEnd(message, at) : at + (tag % 8 === 5 ? 4 : 8);
    fields.push({ number: tag >>> 3, wireType: tag % 8, bytes: message.subarray(from, at) });
  }
  return fields;
}

function write({ number, wireType, bytes }: Field): Buffer {
  const length = wireType === 2 ? varint(bytes.length) : Buffer.alloc(0);
  return Buffer.concat([varint(number * 8 + wireType), length, bytes]);
}

function elementsOf(bytes: Buffer, kind: ListKind): readonly Buffer[] {
  const elements: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const end = kind === 'varints' ? varintEnd(bytes, at) : at + (kind === 'fixed32' ? 4 : 8);
    elements.push(bytes.subarray(at, end));
    at = end;
  }
  return elements;
}

/**
 * @param draw returns a number from 0 to 1
 */
export function scramble(message: Buffer, layout: Layout, draw: () => number): Buffer {
  const written: Buffer[] = [];
  for (const field of fieldsOf(message)) {
    if (draw() < 0.2) written.push(unknown(draw));
    written.push(...rewrite(field, layout[field.number], draw));
  }
  if (draw() < 0.2) written.push(unknown(draw));
  return Buffer.concat(written);
}

function rewrite(field: Field, layout: Layout | ListKind | undefined, draw: () => number): readonly Buffer[] {
  if (layout === undefined || field.wireType !== 2) return [write(field)];
  if (typeof layout !== 'string') {
    const whole = scramble(field.bytes, layout, draw);
    if (layout !== CONTENTS || draw() < 0.5) return [write({ ...field, bytes: whole })];
    const all = fieldsOf(field.bytes);
    const cut = Math.floor(draw() * (all.length + 1));
    return [all.slice(0, cut), all.slice(cut)].map((part) =>
      write({ ...field, bytes: scramble(Buffer.concat(part.map(write)), layout, draw) }),
    );
  }
  const list = layout as ListKind; // the only texts of a layout
  const elements = elementsOf(field.bytes, list);
  const one = (bytes: Buffer): Buffer => write({ number: field.number, wireType: WIRE_TYPES[list], bytes });
  const written: Buffer[] = [];
  for (let at = 0; at < elements.length; ) {
    if (draw() < 0.4) written.push(one(elements[at++] as Buffer));
    else {
      const end = at + 1 + Math.floor(draw() * (elements.length - at));
      written.push(write({ ...field, bytes: Buffer.concat(elements.slice(at, end)) }));
      at = end;
    }
  }
  return written;
}

/** Returns a field that no version of the message has. */
function unknown(draw: () => number): Buffer {
  const number = 100 + Math.floor(draw() * 1000);
  const byte = Buffer.of(Math.floor(draw() * 128));
  const kinds: readonly (() => Buffer)[] = [
    () => write({ number, wireType: 0, bytes: byte }),
    () => write({ number, wireType: 1, bytes: Buffer.alloc(8, byte) }),
    () => write({ number, wireType: 2, bytes: Buffer.alloc(Math.floor(draw() * 20), byte) }),
    () => write({ number, wireType: 5, bytes: Buffer.alloc(4, byte) }),
    () =>
      Buffer.concat([varint(number * 8 + 3), write({ number: 1, wireType: 0, bytes: byte }), varint(number * 8 + 4)]),
  ];
  return kinds[Math.floor(draw() * kinds.length)]?.() ?? Buffer.alloc(0);
}

/** A source of numbers from 0 to 1 that shrinks. */
export const draws: fc.Arbitrary<() => number> = fc
  .array(fc.double({ min: 0, max: 0.999, noNaN: true }), {
    minLength: 1,
    maxLength: 40,
  })
  .map((numbers) => {
    let at = 0;
    return () => numbers[at++ % numbers.length] ?? 0;
  });
