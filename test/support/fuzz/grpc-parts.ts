import { ServeError } from '../../../shared/errors/index.ts';
import { GrpcStatus } from '../../../shared/grpc/index.ts';
import { MessageFrames } from '../../../shared/grpc/message-frames.ts';
import {
  BadTensorResponse,
  completionsOf,
  decodeModelInferRequest,
  encodeModelInferResponse,
  tensorRequestOf,
  tensorResponseOf,
} from '../../../shared/protocol/index.ts';
import type { HostileValues } from './hostile-values.ts';
import type { Part } from './parts.ts';

const MESSAGE_BYTES_MAX = 4096;
/** Most fields of a request and of each nested message. */
const FIELDS_MAX = 9;
const DEPTH_MAX = 5;
const DATA_TYPES = ['Bool', 'Int8', 'Uint64', 'Float16', 'Float32', 'Float64', 'Bytes', 'none', 7];

/** Readers of bytes that gRPC clients and workers of tensor models write. */
export const GRPC_PARTS: Readonly<Record<string, Part>> = {
  'KServe requests': (values) => {
    refusing(() => {
      const request = decodeModelInferRequest(message(values, DEPTH_MAX));
      refusing(() => tensorRequestOf(request));
      refusing(() => completionsOf(request));
    });
  },
  'tensor responses': (values) => {
    const tensor = () => ({
      metadata: { name: values.json(), data_type: values.one(DATA_TYPES), shape: shape(values) },
      data: { data_type: values.one(DATA_TYPES), values: values.chance(0.5) ? values.bytes(40) : values.json() },
    });
    const tensors = Array.from({ length: values.random.below(3) }, tensor);
    const record = values.chance(0.2) ? values.json() : { model: 'm', tensors, parameters: values.json() };
    try {
      encodeModelInferResponse(tensorResponseOf(record, 'id', values.chance(0.5)));
    } catch (error) {
      if (!(error instanceof BadTensorResponse)) throw error;
    }
  },
  'gRPC messages': (values) => {
    const frames = new MessageFrames(MESSAGE_BYTES_MAX);
    try {
      for (let count = values.random.below(20); count >= 0; count--) {
        frames.add(Buffer.from(values.bytes(30)));
        for (let read = frames.next(); read !== undefined; read = frames.next()) {
          if (read.length > MESSAGE_BYTES_MAX) throw new Error('a message beyond the limit');
        }
      }
    } catch (error) {
      if (!(error instanceof GrpcStatus)) throw error;
    }
  },
};

function refusing(read: () => void): void {
  try {
    read();
  } catch (error) {
    if (!(error instanceof ServeError && error.code === 'invalid_value')) throw error;
  }
}

function shape(values: HostileValues): unknown {
  if (values.chance(0.2)) return values.json();
  return Array.from({ length: values.random.below(4) }, () => values.one([0, 1, 2, -1, 2 ** 31, 2n ** 63n, 1.5]));
}

/** Returns fields with mostly valid encoding and arbitrary values. */
function message(values: HostileValues, depth: number): Buffer {
  const fields: Buffer[] = [];
  for (let count = values.random.below(8); count > 0; count--) {
    const number = 1 + values.random.below(FIELDS_MAX);
    const wireType = values.chance(0.7) ? 2 : values.random.below(8);
    const held = depth > 0 && values.chance(0.6) ? message(values, depth - 1) : Buffer.from(values.bytes(12));
    const length = values.chance(0.05) ? values.random.below(128) : Math.min(held.length, 127);
    fields.push(
      Buffer.of(number * 8 + wireType),
      ...(wireType === 2 ? [Buffer.of(length)] : []),
      held.subarray(0, 127),
    );
  }
  return Buffer.concat(fields);
}
