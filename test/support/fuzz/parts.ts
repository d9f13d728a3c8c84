import { seededRandom } from '../../../shared/clock/index.ts';
import { fromText } from '../../../shared/discovery/record-text.ts';
import { ServeError } from '../../../shared/errors/index.ts';
import { fromLambdaEvent, shardKeyOf } from '../../../shared/frontends/lambda/lambda-events.ts';
import { FrameError, FrameParser, writeU32 } from '../../../shared/planes/request/frames/frame.ts';
import { PeerFault } from '../../../shared/planes/request/frames/peer-trust.ts';
import { readEngineOutput } from '../../../shared/protocol/index.ts';
import { JsonReader } from '../../../shared/protocol/json/json-reader.ts';
import { BODY_PARTS } from './body-parts.ts';
import { DYNAMO_PARTS } from './dynamo-parts.ts';
import { EVENT_PARTS } from './event-parts.ts';
import { GRPC_PARTS } from './grpc-parts.ts';
import { HISTORY_PARTS } from './history-parts.ts';
import { HostileValues } from './hostile-values.ts';
import { PARSER_PARTS } from './parser-parts.ts';
import { renderTemplate } from './template-part.ts';
import { loadTokenizerFile, matchTokenizerPattern } from './tokenizer-part.ts';

const FRAME_BYTES_MAX = 64 * 1024;

const URL_EVENT = {
  ...{ version: '2.0', rawPath: '/', rawQueryString: '', headers: { host: 'a' }, cookies: ['a=1'] },
  ...{ requestContext: { http: { method: 'GET' } }, body: '{}', isBase64Encoded: false },
};
const REST_EVENT = {
  ...{ httpMethod: 'GET', path: '/', headers: { host: 'a' }, multiValueHeaders: { host: ['a'] }, body: '{}' },
  ...{ queryStringParameters: { a: '1' }, multiValueQueryStringParameters: { a: ['1', '2'] }, isBase64Encoded: true },
};

/** Runs one reader of the product on one hostile input. Throws if the reader breaks a promise. */
export type Part = (values: HostileValues) => void;

/** Every reader of outside data that needs no process around it. */
const PARTS: Readonly<Record<string, Part>> = {
  ...BODY_PARTS,
  ...DYNAMO_PARTS,
  ...EVENT_PARTS,
  ...GRPC_PARTS,
  ...HISTORY_PARTS,
  ...PARSER_PARTS,
  'chat templates': renderTemplate,
  'tokenizer files': loadTokenizerFile,
  'tokenizer patterns': matchTokenizerPattern,
  'JSON bodies': (values) => {
    const value = values.json();
    const text = values.chance(0.5) ? values.brokenText(value) : (JSON.stringify(value) ?? '');
    const reader = new JsonReader(Buffer.from(text), 64);
    try {
      for (let step = reader.read(); !step.next().done; );
    } catch (error) {
      if (!(error instanceof SyntaxError)) throw error;
    }
  },
  'engine outputs': (values) => {
    const fields = [
      'token_ids',
      'text',
      'tokens',
      'log_probs',
      'top_logprobs',
      'finish_reason',
      'index',
      'engine_data',
    ];
    const output = Object.fromEntries(fields.map((name) => [name, values.json()]));
    readEngineOutput(values.chance(0.3) ? values.json() : output);
  },
  'discovery records': (values) => {
    const value = {
      type: values.one(['Endpoint', 'Model', 'EventChannel', 'x']),
      namespace: values.json(),
      card: values.json(),
    };
    const text = values.chance(0.5) ? values.brokenText(value) : JSON.stringify(value);
    if (fromText(text, values.one(['v1/instances', 'v1/mdc', 'v1/event_channels'] as const), 'a/b') !== undefined) {
      throw new Error('bytes that are not a record were accepted');
    }
  },
  'events of functions': (values) => {
    const fields = values.one([URL_EVENT, REST_EVENT]);
    const event = Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [name, values.chance(0.2) ? values.json() : value]),
    );
    try {
      shardKeyOf(fromLambdaEvent(values.chance(0.1) ? values.json() : event));
    } catch (error) {
      if (!(error instanceof ServeError && error.code === 'invalid_value')) throw error;
    }
  },
  frames: (values) => {
    const receiver = { frame: () => {}, oversize: () => {} };
    const parser = new FrameParser(receiver, FRAME_BYTES_MAX);
    try {
      for (let count = values.random.below(6); count >= 0; count--)
        parser.push(values.chance(0.3) ? values.bytes(40) : frame(values));
    } catch (error) {
      if (!(error instanceof FrameError || error instanceof PeerFault)) throw error;
    }
  },
};

/** Returns a frame with a valid header, whose length may be wrong. */
export function frame(values: HostileValues): Buffer {
  const payload = values.chance(0.5) ? values.bytes(300) : Buffer.from(values.brokenText(values.json()));
  const header = Buffer.alloc(12);
  writeU32(header, 0, values.chance(0.1) ? values.random.below(2 ** 31) : payload.length);
  header[4] = values.chance(0.02) ? 9 : 1;
  header[5] = 1 + values.random.below(values.chance(0.05) ? 40 : 14);
  header[7] = values.random.below(2);
  writeU32(header, 8, values.random.below(4));
  return Buffer.concat([header, payload]);
}

/**
 * A case of one reader that the seed file keeps. It has the name of the reader, because each new reader changes what a
 * seed draws.
 */
export interface PartCase {
  readonly part: string;
  readonly seed: number;
}

/** Returns the case that a seed draws. */
export function partOf(seed: number): PartCase {
  return { part: new HostileValues(seededRandom(seed)).one(Object.keys(PARTS)), seed };
}

/**
 * Plays one case.
 * @throws the error of a reader that may not throw it, or an error for an unknown reader
 */
export function playPart({ part, seed }: PartCase): void {
  const values = new HostileValues(seededRandom(seed));
  values.random.next(); // this number drew the reader
  const play = PARTS[part];
  if (play === undefined) throw new Error(`there is no reader ${part}`);
  play(values);
}
