import { inflateRawSync } from 'node:zlib';

/** Array of a NumPy file. */
export interface NumpyArray {
  /** Values row by row. */
  readonly values: Float64Array;
}

const END_OF_DIRECTORY = 0x0605_4b50;
const DIRECTORY_ENTRY = 0x0201_4b50;
const END_BYTES = 22;
const COMMENT_BYTES_MAX = 0xffff;
const ARRAY_BYTES_MAX = 64 * 2 ** 20;
const [STORED, DEFLATED] = [0, 8];

/**
 * Reads the arrays of an NPZ archive by name, as `numpy.savez` and `savez_compressed` write it.
 * @throws Error with one line for anything else
 */
export function readNpz(bytes: Buffer): ReadonlyMap<string, NumpyArray> {
  const end = findDirectory(bytes);
  const arrays = new Map<string, NumpyArray>();
  let at = bytes.readUInt32LE(end + 16);
  for (let left = bytes.readUInt16LE(end + 10); left > 0; left--) {
    if (bytes.readUInt32LE(at) !== DIRECTORY_ENTRY) throw new Error('its directory is damaged');
    const nameLength = bytes.readUInt16LE(at + 28);
    const name = bytes.toString('utf8', at + 46, at + 46 + nameLength);
    if (name.endsWith('.npy')) arrays.set(name.slice(0, -4), readNpy(unpack(bytes, at), name));
    at += 46 + nameLength + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32);
  }
  return arrays;
}

/** Returns the position of the record at the end of every archive; only a comment may follow it. */
function findDirectory(bytes: Buffer): number {
  const earliest = Math.max(0, bytes.length - END_BYTES - COMMENT_BYTES_MAX);
  for (let at = bytes.length - END_BYTES; at >= earliest; at--) {
    if (bytes.readUInt32LE(at) === END_OF_DIRECTORY) return at;
  }
  throw new Error('it is not an NPZ archive');
}

/** Returns the content of a directory entry. Its own head has the lengths of its name and of its extra field. */
function unpack(bytes: Buffer, entry: number): Buffer {
  const method = bytes.readUInt16LE(entry + 10);
  const packedBytes = bytes.readUInt32LE(entry + 20);
  const head = bytes.readUInt32LE(entry + 42);
  const start = head + 30 + bytes.readUInt16LE(head + 26) + bytes.readUInt16LE(head + 28);
  const packed = bytes.subarray(start, start + packedBytes);
  if (method === STORED) return packed;
  if (method === DEFLATED) return inflateRawSync(packed, { maxOutputLength: ARRAY_BYTES_MAX });
  throw new Error(`compression method ${method} is not known`);
}

const READERS: Readonly<Record<string, (view: DataView, at: number) => number>> = {
  f8: (view, at) => view.getFloat64(at, true),
  f4: (view, at) => view.getFloat32(at, true),
  i8: (view, at) => Number(view.getBigInt64(at, true)),
  i4: (view, at) => view.getInt32(at, true),
  u8: (view, at) => Number(view.getBigUint64(at, true)),
  u4: (view, at) => view.getUint32(at, true),
};

/** Reads `\x93NUMPY`, version, length of the header, a header that is a Python literal, and the numbers. */
function readNpy(bytes: Buffer, name: string): NumpyArray {
  if (bytes.length < 12 || bytes.toString('latin1', 1, 6) !== 'NUMPY') throw new Error(`${name} is not a NumPy array`);
  const isFirstVersion = bytes[6] === 1;
  const start = isFirstVersion ? 10 + bytes.readUInt16LE(8) : 12 + bytes.readUInt32LE(8);
  const header = bytes.toString('latin1', isFirstVersion ? 10 : 12, start);
  const type = /'descr':\s*'<([fiu]\d)'/.exec(header)?.[1] ?? '';
  const read = READERS[type];
  if (read === undefined) throw new Error(`${name} does not contain little-endian numbers`);
  if (/'fortran_order':\s*True/.test(header)) throw new Error(`${name} is in Fortran order`);
  const shape = (/'shape':\s*\(([\d, ]*)\)/.exec(header)?.[1] ?? '').split(',').flatMap((part) => {
    return part.trim() === '' ? [] : [Number(part)];
  });
  const size = shape.reduce((product, length) => product * length, 1);
  const width = Number(type[1]);
  if (bytes.length - start < size * width) throw new Error(`${name} is cut off`);
  const view = new DataView(bytes.buffer, bytes.byteOffset + start);
  return { values: Float64Array.from({ length: size }, (_, at) => read(view, at * width)) };
}
