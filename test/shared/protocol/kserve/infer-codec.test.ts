import { fromBinary, fromJson, type JsonValue, toBinary, toJson } from '@bufbuild/protobuf';
import fc from 'fast-check';
import protobuf from 'protobufjs/minimal.js';
import { describe, expect, it } from 'vitest';
import { ServeError } from '../../../../shared/errors/index.ts';
import {
  ModelInferRequestSchema,
  ModelInferResponseSchema,
  ModelStreamInferResponseSchema,
} from '../../../../shared/grpc/messages/generated/grpc_service_pb.js';
import {
  decodeModelInferRequest,
  encodeModelInferResponse,
  encodeModelStreamInferResponse,
  framedBytes,
  type InferParameters,
  type InferTensor,
  type ModelInferRequest,
} from '../../../../shared/protocol/index.ts';
import type { TensorContents } from '../../../../shared/protocol/kserve/messages.ts';
import { framedStrings } from '../../../../shared/protocol/kserve/tensor-contents.ts';
import { inferRequests, inferResponses } from '../../../support/kserve/arbitrary-messages.ts';
import { draws, REQUEST, scramble } from '../../../support/kserve/scramble.ts';
import { same } from '../../../support/same.ts';

const RUNS = 3000;
/** So many take seconds on a busy machine. */
const PATIENCE_MS = 400_000;

/* Our messages as proto JSON, for comparison with the generated ones. */

function parametersJson(parameters: InferParameters): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(parameters).map(([key, value]) => {
      const [kind, held] = Object.entries(value ?? {})[0] ?? [];
      const isBig = kind === 'int64' || kind === 'uint64';
      return [key, kind === undefined ? {} : { [`${kind}_param`]: isBig ? String(held) : held }];
    }),
  );
}

function contentsJson(contents: TensorContents) {
  return {
    bool_contents: [...(contents.bool ?? [])].map((byte) => byte === 1),
    int_contents: [...(contents.int ?? [])],
    int64_contents: [...(contents.int64 ?? [])].map(String),
    uint_contents: [...(contents.uint ?? [])],
    uint64_contents: [...(contents.uint64 ?? [])].map(String),
    fp32_contents: [...(contents.fp32 ?? [])],
    fp64_contents: [...(contents.fp64 ?? [])],
    bytes_contents: [...framedStrings(contents.bytes?.framed ?? new Uint8Array(0))].map((bytes) =>
      Buffer.from(bytes).toString('base64'),
    ),
  };
}

function tensorJson({ name, datatype, shape, parameters, contents }: InferTensor) {
  return {
    name,
    datatype,
    shape: shape.map(String),
    parameters: parametersJson(parameters),
    ...(contents === undefined ? {} : { contents: contentsJson(contents) }),
  };
}

function requestJson(request: ModelInferRequest) {
  return {
    model_name: request.modelName,
    model_version: request.modelVersion,
    id: request.id,
    parameters: parametersJson(request.parameters),
    inputs: request.inputs.map(tensorJson),
    outputs: request.outputs.map(({ name, parameters }) => ({ name, parameters: parametersJson(parameters) })),
    raw_input_contents: request.rawInputContents.map((raw) => Buffer.from(raw).toString('base64')),
  };
}

type Json = Record<string, unknown>;

/** Without the prefix, which must be right. */
function messageOf(pieces: readonly Buffer[]): Buffer {
  const framed = Buffer.concat(pieces);
  same([framed[0], framed.readUInt32BE(1)], [0, framed.length - 5]);
  return framed.subarray(5);
}

/** A response of ours that says what a JSON of it does. */
function responseOf({ raw_output_contents: raws = [], ...json }: Json) {
  const generated = toBinary(ModelInferResponseSchema, fromJson(ModelInferResponseSchema, json as JsonValue));
  // Without raw contents, field numbers of requests and responses agree.
  const { modelName, modelVersion, id, parameters, inputs } = decodeModelInferRequest(Buffer.from(generated));
  const rawOutputContents = (raws as string[]).map((each) => Buffer.from(each, 'base64'));
  return { modelName, modelVersion, id, parameters, outputs: inputs, rawOutputContents };
}

function attempt<T>(run: () => T): T | Error {
  try {
    return run();
  } catch (thrown) {
    return thrown as Error;
  }
}

function canonical(schema: Parameters<typeof fromJson>[0], json: unknown): unknown {
  return toJson(schema, fromJson(schema, json as JsonValue));
}

describe('the codec of inference', () => {
  it(
    'reads every request as the generated code does, in any form in which it is written',
    () => {
      fc.assert(
        fc.property(inferRequests, draws, (json, draw) => {
          const plain = toBinary(ModelInferRequestSchema, fromJson(ModelInferRequestSchema, json as JsonValue));
          const bytes = scramble(Buffer.from(plain), REQUEST, draw);
          const read = requestJson(decodeModelInferRequest(bytes));
          const generated = toJson(ModelInferRequestSchema, fromBinary(ModelInferRequestSchema, bytes));
          same(canonical(ModelInferRequestSchema, read), generated);
          same(generated, canonical(ModelInferRequestSchema, json));
        }),
        { numRuns: RUNS },
      );
    },
    PATIENCE_MS,
  );

  it(
    'writes every response so that the generated code reads it',
    () => {
      const withoutLast = inferResponses.map((json) => json as Json);
      fc.assert(
        fc.property(withoutLast, fc.string({ maxLength: 8 }), (json, errorMessage) => {
          const response = responseOf(json);
          const whole = fromBinary(ModelInferResponseSchema, messageOf(encodeModelInferResponse(response)));
          same(toJson(ModelInferResponseSchema, whole), canonical(ModelInferResponseSchema, json));
          const streamed = encodeModelStreamInferResponse({ errorMessage, inferResponse: response });
          same(
            toJson(ModelStreamInferResponseSchema, fromBinary(ModelStreamInferResponseSchema, messageOf(streamed))),
            canonical(ModelStreamInferResponseSchema, { error_message: errorMessage, infer_response: json }),
          );
        }),
        { numRuns: RUNS },
      );
    },
    PATIENCE_MS,
  );

  it('reads lists that are not packed, unknown fields, and messages in several parts', () => {
    const writer = protobuf.Writer.create();
    writer.uint32(10).string('m');
    writer.uint32((1023 << 3) | 2).string('abc'); // nobody knows it
    writer
      .uint32((1000 << 3) | 3)
      .uint32(8)
      .uint32(1)
      .uint32((1000 << 3) | 4); // a group
    writer.uint32(42).fork(); // an input, whose shape comes one by one
    writer.uint32(10).string('x').uint32(24).int64(2).uint32(24).int64(-1);
    for (const value of [1, -1]) writer.uint32(42).fork().uint32(16).int32(value).uint32(53).float(0.5).ldelim();
    writer.ldelim();
    const bytes = Buffer.from(writer.finish());
    const read = requestJson(decodeModelInferRequest(bytes));
    const generated = toJson(ModelInferRequestSchema, fromBinary(ModelInferRequestSchema, bytes));
    expect(canonical(ModelInferRequestSchema, read)).toEqual(generated);
    expect(read.inputs[0]).toMatchObject({ shape: ['2', '-1'] });
  });

  it(
    'refuses bytes that are no message, and never runs or grows with what they claim',
    () => {
      const seeds = fc.oneof(
        fc.uint8Array({ maxLength: 60 }),
        fc.tuple(inferRequests, fc.nat(), fc.nat(255)).map(([json, at, byte]) => {
          const bytes = toBinary(ModelInferRequestSchema, fromJson(ModelInferRequestSchema, json as JsonValue));
          if (bytes.length > 0) bytes[at % bytes.length] = byte;
          return bytes;
        }),
      );
      fc.assert(
        fc.property(seeds, (bytes) => {
          const ours = attempt(() => requestJson(decodeModelInferRequest(Buffer.from(bytes))));
          if (ours instanceof Error)
            same([ours instanceof ServeError, (ours as ServeError).code], [true, 'invalid_value']);
        }),
        { numRuns: RUNS },
      );
    },
    PATIENCE_MS,
  );

  it('bounds lists and depth', () => {
    const input = Buffer.from('2a00', 'hex');
    expect(() => decodeModelInferRequest(Buffer.concat(Array<Buffer>(1025).fill(input)))).toThrow(
      'inputs has more than 1024 entries',
    );
    const parameter = Buffer.from('220a0a026b6b12041a026262', 'hex');
    expect(() => decodeModelInferRequest(Buffer.concat(Array<Buffer>(1025).fill(parameter)))).toThrow('parameters');
    expect(() => decodeModelInferRequest(Buffer.alloc(1000, 0x0b))).toThrow('recursion limit reached');
  });

  it('keeps a parameter named __proto__ as what it is', () => {
    const writer = protobuf.Writer.create();
    for (const key of ['__proto__', 'constructor']) writer.uint32(34).fork().uint32(10).string(key).ldelim();
    const bytes = writer.finish();
    const { parameters } = decodeModelInferRequest(Buffer.from(bytes));
    expect(Object.keys(parameters).sort()).toEqual(['__proto__', 'constructor']);
  });

  it('puts the parts of a parameter together, as the generated code does not', () => {
    const writer = protobuf.Writer.create();
    const entry = writer.uint32(34).fork().uint32(10).string('k');
    entry.uint32(18).fork().uint32(16).int64(5).ldelim(); // its value,
    entry.uint32(18).fork().ldelim().ldelim(); // to which another part adds nothing
    expect(decodeModelInferRequest(Buffer.from(writer.finish())).parameters).toEqual({ k: { int64: 5 } });
  });

  it('frames byte strings as raw contents have them', () => {
    expect(Buffer.from(framedBytes(['', 'a', 'hé']).framed).toString('hex')).toBe(
      '00000000010000006103000000' + '68c3a9',
    );
  });
});
