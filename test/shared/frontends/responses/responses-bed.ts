import type { GenerationSink } from '../../../../shared/protocol/index.ts';
import type { Frame, JsonObject } from '../../../support/dynamo-http/records.ts';
import { parseFrames } from '../../../support/dynamo-http/wire-answer.ts';
import { finish, reasoning, tell, toolArguments, toolCall } from '../../../support/generation-events.ts';
import { createTestApp, type TestApp, type TestAppOptions } from '../../../support/http-app.ts';
import { type ScriptedCall, ScriptedPipeline } from '../../../support/scripted-pipeline.ts';

export const USAGE = { promptTokens: 3, completionTokens: 2 };

/** The app with a pipeline that plays what `play` says. */
export function openBed(play: (call: ScriptedCall) => void, options: TestAppOptions = {}): Bed {
  const pipeline = new ScriptedPipeline().onGenerate(play);
  return new Bed(createTestApp({ pipeline, ...options }), pipeline);
}

export class Bed {
  readonly test: TestApp;
  readonly pipeline: ScriptedPipeline;

  constructor(test: TestApp, pipeline: ScriptedPipeline) {
    this.test = test;
    this.pipeline = pipeline;
  }

  async send(method: string, path: string, body?: object): Promise<Response> {
    return this.test.app.fetch(
      new Request(`http://localhost${path}`, {
        method,
        ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      }),
    );
  }

  create(fields: object = {}): Promise<Response> {
    return this.send('POST', '/v1/responses', { model: 'm', input: 'hi', ...fields });
  }

  /** A unary response object. */
  async object(fields: object = {}): Promise<JsonObject> {
    return (await (await this.create(fields)).json()) as JsonObject;
  }

  /** The data of every event of a stream; checks that names and numbers agree with them. */
  async events(fields: object = {}): Promise<readonly JsonObject[]> {
    const response = await this.create({ stream: true, ...fields });
    return eventsOf(await response.text());
  }
}

/** The data of a stream's events, which must be numbered from 0 and named by their type, with `[DONE]` behind them. */
export function eventsOf(text: string): readonly JsonObject[] {
  const frames = parseFrames(text).filter((frame) => frame.data !== undefined);
  if (frames.at(-1)?.data !== '[DONE]') throw new Error(`the stream does not end with [DONE]: ${text.slice(-100)}`);
  return frames.slice(0, -1).map((frame: Frame, at) => {
    const data = frame.data as JsonObject;
    if (data.type !== frame.event || data.sequence_number !== at) {
      throw new Error(`event ${at} is ${frame.event} with ${JSON.stringify(data).slice(0, 100)}`);
    }
    return data;
  });
}

/** An event in short: its type, and what it says. */
export function brief(event: JsonObject): string {
  const said = event.delta ?? event.text ?? event.arguments ?? event.input;
  return said === undefined ? String(event.type) : `${String(event.type)} ${JSON.stringify(said)}`;
}

/** Ends an answer as a worker does. */
export function stop(sink: GenerationSink, reason: 'stop' | 'length' | 'tool_calls' | 'content_filter' = 'stop'): void {
  tell(sink, finish({ reason }));
  sink.end(USAGE, true);
}

export const say = (sink: GenerationSink, text: string): void => sink.text(0, text, 1);
export const think = (sink: GenerationSink, text: string): void => tell(sink, reasoning(text));
export const call = (sink: GenerationSink, index: number, name: string): void => tell(sink, toolCall(index, name));
export const args = (sink: GenerationSink, index: number, text: string): void => tell(sink, toolArguments(index, text));
