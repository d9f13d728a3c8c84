import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { readTimingProfile } from '../../../../shared/engines/index.ts';

const folder = mkdtempSync(join(tmpdir(), 'stator-profile-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Column {
  readonly name: string;
  readonly type: '<f8' | '<f4' | '<i8';
  readonly shape: readonly number[];
  readonly values: readonly number[];
}

function npy({ type, shape, values }: Column): Buffer {
  const header = `{'descr': '${type}', 'fortran_order': False, 'shape': (${shape.join(', ')}${shape.length === 1 ? ',' : ''}), }`;
  const padded = `${header.padEnd(Math.ceil((header.length + 11) / 64) * 64 - 11)}\n`;
  const head = Buffer.from([0x93, ...Buffer.from('NUMPY'), 1, 0, padded.length & 255, padded.length >> 8]);
  const numbers = () => {
    if (type === '<f8') return Float64Array.from(values);
    return type === '<f4' ? Float32Array.from(values) : BigInt64Array.from(values.map(BigInt));
  };
  return Buffer.concat([head, Buffer.from(padded, 'latin1'), Buffer.from(numbers().buffer)]);
}

/** An archive as NumPy writes it; checksums are left out, as nobody reads them. */
function npz(columns: readonly Column[], isPacked: boolean): Buffer {
  const bodies: Buffer[] = [];
  const entries: Buffer[] = [];
  let at = 0;
  for (const column of columns) {
    const name = Buffer.from(`${column.name}.npy`);
    const plain = npy(column);
    const packed = isPacked ? deflateRawSync(plain) : plain;
    const shared = Buffer.alloc(26);
    shared.writeUInt16LE(20, 0);
    shared.writeUInt16LE(isPacked ? 8 : 0, 4);
    shared.writeUInt32LE(packed.length, 14);
    shared.writeUInt32LE(plain.length, 18);
    shared.writeUInt16LE(name.length, 22);
    const body = Buffer.concat([Buffer.from('PK\x03\x04'), shared, name, packed]);
    const tail = Buffer.alloc(14);
    tail.writeUInt32LE(at, 10);
    entries.push(Buffer.concat([Buffer.from('PK\x01\x02'), Buffer.from([20, 0]), shared, tail, name]));
    bodies.push(body);
    at += body.length;
  }
  const directory = Buffer.concat(entries);
  const end = Buffer.alloc(22);
  end.write('PK\x05\x06', 'latin1');
  end.writeUInt16LE(columns.length, 8);
  end.writeUInt16LE(columns.length, 10);
  end.writeUInt32LE(directory.length, 12);
  end.writeUInt32LE(at, 16);
  return Buffer.concat([...bodies, directory, end]);
}

function write(name: string, content: Buffer | string): string {
  const path = join(folder, name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, content);
  return path;
}

const MOCK_COLUMNS: readonly Column[] = [
  { name: 'prefill_isl', type: '<i8', shape: [3], values: [1000, 2000, 4000] },
  { name: 'prefill_ttft_ms', type: '<f8', shape: [3], values: [10, 30, 50] },
  { name: 'decode_active_kv_tokens', type: '<f4', shape: [2], values: [0, 1000] },
  { name: 'decode_context_length', type: '<f8', shape: [2], values: [100, 300] },
  { name: 'decode_itl', type: '<f8', shape: [2, 2], values: [4, 8, 6, 10] },
];

/** The same figures as a profiler leaves them, in any order. */
const PREFILL = { prefill_isl: [4000, 1000, 2000], prefill_ttft: [50, 10, 30], prefill_thpt_per_gpu: [1, 1, 1] };
const DECODE = {
  x_kv_usage: [0.5, 0, 0.5, 0],
  y_context_length: [100, 100, 300, 300],
  z_itl: [6, 4, 10, 8],
  z_thpt_per_gpu: [1, 1, 1, 1],
  max_kv_tokens: 2000,
};

function columnsOf(fields: Readonly<Record<string, number | readonly number[]>>): readonly Column[] {
  return Object.entries(fields).map(([name, value]) => {
    const values = typeof value === 'number' ? [value] : value;
    return { name, type: '<f8', shape: [values.length], values };
  });
}

const SOURCES: readonly (readonly [string, () => string])[] = [
  ['an archive', () => write('plain.npz', npz(MOCK_COLUMNS, false))],
  ['a compressed archive', () => write('packed.npz', npz(MOCK_COLUMNS, true))],
  [
    'a folder of JSON files',
    () => {
      write('json/prefill_raw_data.json', JSON.stringify(PREFILL));
      write('json/decode_raw_data.json', JSON.stringify(DECODE));
      return join(folder, 'json');
    },
  ],
  [
    'a folder of archives',
    () => {
      write('npz/selected_prefill_interpolation/raw_data.npz', npz(columnsOf(PREFILL), true));
      write('npz/selected_decode_interpolation/raw_data.npz', npz(columnsOf(DECODE), true));
      return join(folder, 'npz');
    },
  ],
];

describe.each(SOURCES)('timing tables of %s', (_, source) => {
  it.each([
    [0, 0],
    [1000, 10],
    [1500, 20],
    [3000, 40],
    [5000, 60], // goes on with the last slope
    [250, 0], // never below 0
  ])('prefill %i tokens in %d ms', async (tokens, ms) => {
    expect((await readTimingProfile(source())).prefillMs(tokens)).toBeCloseTo(ms, 6);
  });

  it.each([
    [0, 100, 4],
    [1000, 100, 6],
    [500, 200, 7],
    [2000, 300, 12],
    [0, 50, 3],
    [0, -1000, 1], // never below 1
  ])('decode %i active tokens at context %i in %d ms', async (active, context, ms) => {
    expect((await readTimingProfile(source())).decodeMs(active, context, 16_384)).toBeCloseTo(ms, 6);
  });
});

describe('timing tables that cannot be read', () => {
  it.each([
    ['no archive', () => write('bad.npz', 'text'), 'it is not an NPZ archive'],
    ['a missing column', () => write('short.npz', npz(MOCK_COLUMNS.slice(1), false)), 'prefill_isl is missing'],
    [
      'columns of different lengths',
      () =>
        write(
          'odd.npz',
          npz([...MOCK_COLUMNS.slice(0, 4), { ...MOCK_COLUMNS[4]!, shape: [3], values: [1, 2, 3] }], false),
        ),
      'decode_itl must contain 4 numbers, got 3',
    ],
    ['an empty folder', () => join(write('empty/x', ''), '..'), 'prefill_raw_data.json'],
  ])('are refused with one line: %s', async (_, source, message) => {
    const path = source();
    await expect(readTimingProfile(path)).rejects.toThrow(message);
    await expect(readTimingProfile(path)).rejects.toThrow(`--planner-profile-data ${path}`);
  });
});
