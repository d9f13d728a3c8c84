import { writeFileSync } from 'node:fs';
import type { Client } from '@grpc/grpc-js';
import { encodeMessage } from '../../shared/grpc/index.ts';
import { ModelInferRequestSchema } from '../../shared/grpc/messages/generated/grpc_service_pb.js';
import { cpuMsOf } from '../../test/support/process-table.ts';

export const SERVICE = '/inference.GRPCInferenceService';

const same = (bytes: Buffer): Buffer => bytes;

export interface AskOptions {
  readonly maxTokens?: number;
  readonly isStream?: boolean;
  /** Raw bytes of the tensor. @default 16 numbers of 32 bits */
  readonly tensor?: Buffer;
}

/** A request to one of the two models. */
export function messageOf(model: 'bench' | 'echo', options: AskOptions = {}): Buffer {
  const { maxTokens, isStream = false, tensor = Buffer.alloc(64, 1) } = options;
  const inputs =
    model === 'echo'
      ? [{ name: 'INPUT', datatype: 'INT32', shape: [BigInt(tensor.length / 4)] }]
      : [
          { name: 'text_input', datatype: 'BYTES', shape: [1n], contents: { bytesContents: [Buffer.from(PROMPT)] } },
          { name: 'stream', datatype: 'BOOL', shape: [1n], contents: { boolContents: [isStream] } },
        ];
  const parameters =
    maxTokens === undefined || model === 'echo'
      ? {}
      : {
          max_tokens: { parameterChoice: { case: 'int64Param' as const, value: BigInt(maxTokens) } },
          ignore_eos: { parameterChoice: { case: 'boolParam' as const, value: true } },
        };
  const rawInputContents = model === 'echo' ? [tensor] : [];
  const message = encodeMessage(ModelInferRequestSchema, { modelName: model, inputs, parameters, rawInputContents });
  return Buffer.from(message);
}

const PROMPT = Array.from({ length: 32 }, (_, at) => `word${at}`).join(' ');

/** The answer's bytes; undefined for a failure. */
export function askUnary(client: Client, rpc: string, message: Buffer): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const deadline = Date.now() + 30_000;
    client.makeUnaryRequest(`${SERVICE}/${rpc}`, same, same, message, { deadline }, (error, bytes) =>
      resolve(error ? undefined : bytes),
    );
  });
}

/**
 * Returns how many messages a stream gave for one request. Rejects when it fails, or when a message says that it
 * failed.
 */
export function askStream(client: Client, message: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const call = client.makeBidiStreamRequest(`${SERVICE}/ModelStreamInfer`, same, same);
    let messages = 0;
    call.on('data', (bytes: Buffer) => {
      messages++;
      if (bytes[0] === 0x0a) reject(new Error(bytes.toString('latin1'))); // error_message
    });
    call.on('error', reject);
    call.on('end', () => resolve(messages));
    call.write(message);
    call.end();
  });
}

/** CPU of a process in milliseconds, of all the threads that it has now. */
function cpuMs(pid: number): number {
  const ms = cpuMsOf(pid);
  if (ms === undefined) throw new Error(`process ${pid} has ended`);
  return ms;
}

export interface Load {
  readonly atOnce: number;
  /** Number of requests after which it ends; it also ends after the time limit. */
  readonly count: number;
  readonly seconds: number;
  /** Sends one request and returns the count of its answer. */
  readonly ask: () => Promise<number>;
}

/** Asks `atOnce` at a time; CPU of the process, and what the answers counted. */
export async function loadFor(pid: number, { atOnce, count, seconds, ask }: Load) {
  let [asked, units] = [0, 0];
  const untilMs = performance.now() + seconds * 1000;
  const before = cpuMs(pid);
  const one = async (): Promise<void> => {
    while (asked < count && performance.now() < untilMs) {
      asked++;
      const counted = await ask(); // others count meanwhile
      units += counted;
    }
  };
  await Promise.all(Array.from({ length: atOnce }, one));
  return { cpuMs: cpuMs(pid) - before, asked, units };
}

/** Forgets the most memory that a process has had. */
export function forgetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}
