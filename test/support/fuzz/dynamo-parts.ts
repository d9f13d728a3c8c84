import { Packr } from 'msgpackr';
import { workerError } from '../../../shared/errors/index.ts';
import { ClientCall } from '../../../shared/planes/request/client-call.ts';
import { AnswerStream } from '../../../shared/planes/request/dynamo/answer-stream.ts';
import type { DynamoCodec } from '../../../shared/planes/request/dynamo/codec.ts';
import type { AnswerConnection } from '../../../shared/planes/request/dynamo/home-connection.ts';
import { AckRules } from '../../../shared/planes/request/dynamo/message.ts';
import { PlainItems } from '../../../shared/planes/request/dynamo/plain-items.ts';
import { RecordCutter } from '../../../shared/planes/request/dynamo/record-cutter.ts';
import { TwoPartRules } from '../../../shared/planes/request/dynamo/two-part.ts';
import { WireFault } from '../../../shared/planes/request/dynamo/wire-fault.ts';
import { silentObserver } from '../../../shared/planes/request/observer.ts';
import { DynamoAnswerReader, readTypedError } from '../../../shared/protocol/index.ts';
import { twoPart } from '../stand-in-dynamo-worker.ts';
import { VirtualClock } from '../virtual-clock.ts';
import type { HostileValues } from './hostile-values.ts';
import type { Part } from './parts.ts';

const MESSAGE_BYTES_MAX = 64 * 1024;
const packr = new Packr({ useRecords: false, variableMapSize: true });

/** Readers of Dynamo's request plane, whose workers may be hostile. */
export const DYNAMO_PARTS: Readonly<Record<string, Part>> = {
  "acknowledgements of Dynamo's workers": (values) => {
    const cutter = new RecordCutter(new AckRules(() => {}));
    mayFault(() => {
      for (let count = values.random.below(6); count >= 0; count--) cutter.push(values.bytes(60));
    });
  },
  "answers of Dynamo's workers": (values) => {
    const codec = values.one(['json', 'msgpack'] as const);
    const stream = new ScriptedStream(codec);
    const cutter = new RecordCutter(
      new TwoPartRules(MESSAGE_BYTES_MAX, (...message) => stream.stream.message(...message)),
    );
    stream.stream.arrived(stream.connection);
    if (values.chance(0.9)) cutter.push(twoPart('{"error":null}'));
    try {
      for (let count = 1 + values.random.below(8); count > 0; count--) {
        for (const piece of cutIn(values, messageFor(values, codec))) cutter.push(piece);
      }
    } catch (error) {
      // a connection ends its stream for any error of reading
      if (!(error instanceof Error)) throw error;
      stream.stream.lost(workerError('BackendProtocol', error));
    }
    stream.check();
  },
};

/** A stream of which the sink checks that nothing follows its end. */
class ScriptedStream {
  readonly stream: AnswerStream;
  readonly connection: AnswerConnection;
  #ends = 0;
  #isClosed = false;

  constructor(codec: DynamoCodec) {
    const clock = new VirtualClock();
    const call = new ClientCall({
      sink: {
        accepted: () => this.#goesOn(),
        tokens: (_choice, ids, start, count) => {
          this.#goesOn();
          if (start + count > ids.length) throw new Error('tokens beyond their list');
        },
        output: () => this.#goesOn(),
        end: () => void this.#ends++,
        fail: () => void this.#ends++,
      },
      clock,
      observer: silentObserver,
      deadlineMs: undefined,
      hasCredit: false,
    });
    const plain = codec === 'msgpack' ? new PlainItems() : undefined;
    const reader = new DynamoAnswerReader(call);
    this.stream = new AnswerStream({
      ...{ call, subject: 's', codec, clock, reader, plain },

      failureIn: readTypedError,
    });
    const close = (): void => {
      this.#isClosed = true;
    };
    this.connection = { stop() {}, hold() {}, release() {}, kill: close, finish: close };
  }

  /** Throws if the stream has ended twice, or is over and its connection is open. */
  check(): void {
    if (this.#ends > 1) throw new Error(`a stream ended ${this.#ends} times`);
    if (this.#ends === 1 && !this.#isClosed) throw new Error('a stream is over, and its connection stays open');
  }

  #goesOn(): void {
    if (this.#ends > 0) throw new Error('output after the end');
  }
}

/** Returns a message that may be one of an answer, or almost one. */
function messageFor(values: HostileValues, codec: DynamoCodec): Buffer {
  if (values.chance(0.05)) return values.bytes(60);
  const header = values.chance(0.85) ? '' : values.one(['"sentinel"', '"kill"', '{"error":"x"}', values.text()]);
  const output = {
    token_ids: values.one([[1], [1, 70_000], [], values.json()]),
    text: null,
    finish_reason: values.one([null, 'stop', values.json()]),
    index: values.one([null, 0, values.json()]),
  };
  const item = values.one([
    { data: output },
    { data: output, event: values.json() },
    { event: 'error', comment: values.json() },
    values.json(),
  ]);
  const record = values.one([
    { data: item, complete_final: false },
    { data: item, complete_final: false },
    { data: item, complete_final: values.json() },
    { complete_final: true },
    values.json(),
  ]);
  const body = codec === 'json' ? Buffer.from(JSON.stringify(record) ?? '') : packr.pack(record ?? null);
  const damaged = values.chance(0.1) ? Buffer.concat([body, values.bytes(8)]) : body;
  const message = twoPart(header, damaged, values.chance(0.2) ? 7n : 0n);
  if (values.chance(0.03)) message[values.random.below(16)] = values.random.below(256); // a length that lies
  return message;
}

/** Cuts a message at one place, perhaps. */
function cutIn(values: HostileValues, message: Buffer): readonly Buffer[] {
  if (values.chance(0.6)) return [message];
  const at = values.random.below(message.length + 1);
  return [Buffer.from(message.subarray(0, at)), Buffer.from(message.subarray(at))];
}

function mayFault(read: () => void): void {
  try {
    read();
  } catch (error) {
    if (!(error instanceof WireFault)) throw error;
  }
}
