import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { KserveClient, methodOf, type Outcome } from '../../../support/kserve/kserve-client.ts';
import { type ScriptedKserve, startScriptedKserve } from '../../../support/kserve/scripted-server.ts';

const WIDTHS: Readonly<Record<string, number>> = {
  BOOL: 1,
  INT8: 1,
  UINT8: 1,
  INT16: 2,
  UINT16: 2,
  FP16: 2,
  BF16: 2,
  INT32: 4,
  UINT32: 4,
  FP32: 4,
  INT64: 8,
  UINT64: 8,
  FP64: 8,
};

const int = (bits: number) => fc.integer({ min: -(2 ** (bits - 1)), max: 2 ** (bits - 1) - 1 });
const uint = (bits: number) => fc.integer({ min: 0, max: 2 ** bits - 1 });

/** Field of typed contents, and what it may hold. */
const TYPED: Readonly<Record<string, readonly [string, fc.Arbitrary<unknown>]>> = {
  BOOL: ['bool_contents', fc.boolean()],
  INT8: ['int_contents', int(8)],
  INT16: ['int_contents', int(16)],
  INT32: ['int_contents', int(32)],
  UINT8: ['uint_contents', uint(8)],
  UINT16: ['uint_contents', uint(16)],
  UINT32: ['uint_contents', uint(32)],
  INT64: ['int64_contents', fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map(String)],
  UINT64: ['uint64_contents', fc.bigInt(0n, 2n ** 64n - 1n).map(String)],
  FP32: ['fp32_contents', fc.oneof(fc.float({ noNaN: true, noDefaultInfinity: true }), fc.constant('Infinity'))],
  FP64: ['fp64_contents', fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.constant('NaN'))],
  BYTES: ['bytes_contents', fc.uint8Array({ maxLength: 12 }).map(base64)],
};

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}

const shapes = fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 3 });

function countOf(shape: readonly number[]): number {
  return shape.reduce((product, dimension) => product * dimension, 1);
}

function described(datatype: string, shape: readonly number[]) {
  return { name: 'input', datatype, shape: shape.map(String) };
}

const typed = fc.tuple(fc.constantFrom(...Object.keys(TYPED)), shapes).chain(([datatype, shape]) => {
  const [field, element] = TYPED[datatype]!; // one of its keys
  const count = countOf(shape);
  return fc
    .array(element, { minLength: count, maxLength: count })
    .map((values) => ({ ...described(datatype, shape), contents: { [field]: values } }));
});

const raw = fc.tuple(fc.constantFrom(...Object.keys(WIDTHS), 'BYTES'), shapes).chain(([datatype, shape]) => {
  const count = countOf(shape);
  const bytes =
    datatype === 'BYTES'
      ? fc.array(fc.uint8Array({ maxLength: 12 }), { minLength: count, maxLength: count }).map(framed)
      : fc.uint8Array({ minLength: count * WIDTHS[datatype]!, maxLength: count * WIDTHS[datatype]! });
  return bytes.map((held) => ({
    tensor: described(datatype, shape),
    bytes: datatype === 'BOOL' ? held.map((byte) => byte & 1) : held,
  }));
});

function framed(strings: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(
    strings.flatMap((each) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(each.length);
      return [length, each];
    }),
  );
}

describe('tensors through the server and a worker', () => {
  let models: ScriptedKserve;
  let client: KserveClient;

  beforeAll(async () => {
    models = await startScriptedKserve();
    client = new KserveClient(`127.0.0.1:${models.server.port}`);
  });

  afterAll(async () => {
    client.close();
    await models.close();
  });

  const ask = async (rpc: string, request: object): Promise<Record<string, unknown>> => {
    const { code, message, responses } = await client.ask(rpc, [{ model_name: 'echo', ...request }]);
    expect({ code, message }).toEqual({ code: 0, message: '' });
    const [response] = responses;
    return (rpc === 'ModelInfer' ? response : response?.infer_response) as Record<string, unknown>;
  };

  it('come back as they went, of any type and shape, raw', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(raw, { minLength: 1, maxLength: 3 }),
        fc.constantFrom('ModelInfer', 'ModelStreamInfer'),
        async (all, rpc) => {
          const rawContents = all.map(({ bytes }) => base64(bytes));
          const { outputs, raw_output_contents } = await ask(rpc, {
            inputs: all.map(({ tensor }) => tensor),
            raw_input_contents: rawContents,
          });
          expect(raw_output_contents).toEqual(rawContents);
          expect(outputs).toEqual(all.map(({ tensor }) => withoutEmpty(tensor)));
        },
      ),
      { numRuns: 300 },
    );
  });

  it('come back as they went, of any type and shape, typed', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(typed, { minLength: 1, maxLength: 3 }), async (all) => {
        const { outputs } = await ask('ModelInfer', { inputs: all });
        // As the generated code itself writes them.
        const asSent = await client.canonical({ inputs: all });
        expect(outputs).toEqual(asSent.inputs);
      }),
      { numRuns: 300 },
    );
  });

  it('of 2 MiB come back as they went, out of pieces', async () => {
    const bytes = Buffer.from(Array.from({ length: 2 << 20 }, (_, at) => at * 7));
    const input = described('UINT8', [2 << 20]);
    const response = await ask('ModelInfer', { inputs: [input], raw_input_contents: [base64(bytes)] });
    expect((response.raw_output_contents as string[])[0] === base64(bytes)).toBe(true);
  });
});

/** JSON leaves out what is empty. */
function withoutEmpty(tensor: { readonly shape: readonly string[] }): object {
  const { shape, ...rest } = tensor;
  return shape.length === 0 ? rest : tensor;
}

describe('messages that no client should send', () => {
  it('are refused with INVALID_ARGUMENT or served, one answer each, and the stream and the server go on', async () => {
    const models = await startScriptedKserve();
    const client = new KserveClient(`127.0.0.1:${models.server.port}`);
    const good = { model_name: 'echo', inputs: [described('INT8', [2])], raw_input_contents: ['AQI='] };
    const bytes = await client.bytesOf(good);
    const mutated = fc.tuple(fc.nat(), fc.nat(255), fc.nat(3)).map(([at, byte, cut]) => {
      const copy = Buffer.from(bytes);
      copy[at % copy.length] = byte;
      return copy.subarray(0, copy.length - (cut === 3 ? at % copy.length : 0));
    });
    const anything = fc.oneof(
      fc.uint8Array({ maxLength: 80 }).map((each) => Buffer.from(each)),
      mutated,
    );
    const codes = new Set<number>();
    await fc.assert(
      fc.asyncProperty(fc.array(anything, { minLength: 1, maxLength: 6 }), async (all) => {
        const unary = await client.askBytes(methodOf('ModelInfer'), all.slice(0, 1));
        codes.add(unary.code);
        const stream: Outcome = await client.askBytes(methodOf('ModelStreamInfer'), all);
        codes.add(stream.code);
        expect(stream.responses.length).toBeLessThanOrEqual(all.length);
        if (stream.code === 0) expect(stream.responses).toHaveLength(all.length);
      }),
      { numRuns: 300 },
    );
    expect([...codes].filter((code) => ![0, 3, 5].includes(code))).toEqual([]);
    expect(await client.ask('ModelInfer', [good])).toMatchObject({ code: 0 });
    client.close();
    await models.close();
  });
});
