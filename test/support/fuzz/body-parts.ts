import { AnswerForm } from '../../../shared/engines/http/answer-body.ts';
import { readEvent } from '../../../shared/engines/http/exchange.ts';
import { SseParser } from '../../../shared/engines/http/sse-parser.ts';
import { faultInAnswer, ServeError } from '../../../shared/errors/index.ts';
import { WorkerBodies } from '../../../shared/pipeline/answer/bodies/worker-bodies.ts';
import { isRecord } from '../../../shared/records/index.ts';
import type { HostileValues } from './hostile-values.ts';
import type { Part } from './parts.ts';

const FINISHES: ReadonlySet<unknown> = new Set(['stop', 'length', 'tool_calls', 'content_filter']);

/** Readers of the answers of upstream servers. */
export const BODY_PARTS: Readonly<Record<string, Part>> = {
  'bodies of workers': (values) => {
    const isChat = values.chance(0.8);
    const bodies = new WorkerBodies({
      isChat,
      choicesMax: 2,
      maxTokens: 10,
      callsMax: values.chance(0.2) ? 1 : Number.POSITIVE_INFINITY,
      toolNames: new Set(['get', 'get_weather']),
      idOf: (choice, index) => `call_${choice}_${index}`,
    });
    const shown = new Shown(isChat);
    try {
      for (let at = values.random.below(12); at > 0; at--)
        for (const chunk of bodies.read(body(values))) shown.add(chunk);
      for (const chunk of bodies.end()) shown.add(chunk);
    } catch (thrown) {
      if (thrown instanceof ServeError) return;
      throw thrown;
    }
    shown.end(bodies.choiceCount);
  },
  'answers of upstreams': (values) => {
    const events: string[] = [];
    const parser = new SseParser((data, name) => {
      events.push(data);
      mayRefuse(() => readEvent(data, name));
    });
    const type = values.one(['text/event-stream', 'application/json', '']);
    const form = new AnswerForm({ 'content-type': type }, (chunk) => parser.push(chunk));
    for (let at = values.random.below(6); at > 0; at--) {
      const line = `${values.one(['data: ', 'event: error\ndata: ', ': ', ''])}${values.brokenText(body(values))}\n\n`;
      form.push(values.chance(0.2) ? values.bytes(40) : Buffer.from(line));
    }
    form.end();
    parser.end();
    mayRefuse(() => {
      throw faultInAnswer(values.json());
    });
  },
};

/** The events shown to a client, each checked against the published shape when it arrives. */
class Shown {
  readonly #isChat: boolean;
  readonly #finished = new Set<unknown>();
  readonly #begun = new Set<unknown>();
  readonly #calls = new Map<unknown, Set<unknown>>();

  constructor(isChat: boolean) {
    this.#isChat = isChat;
  }

  add({ choices }: { readonly choices: readonly Readonly<Record<string, unknown>>[] }): void {
    if (choices.length === 0) throw new Error('a chunk without choices');
    for (const { index, delta, text, finish_reason: finish } of choices) {
      if (this.#finished.has(index)) throw new Error('more of a choice that has ended');
      if (finish !== null && !FINISHES.has(finish)) throw new Error(`the finish reason ${JSON.stringify(finish)}`);
      if (finish !== null) this.#finished.add(index);
      if (this.#isChat) this.#delta(index, delta);
      else if (typeof text !== 'string') throw new Error('no text');
    }
  }

  end(choices: number): void {
    if (this.#finished.size !== choices) throw new Error(`${this.#finished.size} of ${choices} choices have ended`);
  }

  #delta(index: unknown, delta: unknown): void {
    if (!isRecord(delta)) throw new Error('no delta');
    if ((delta.role === 'assistant') === this.#begun.has(index)) throw new Error('a role that is not the first one');
    this.#begun.add(index);
    if (delta.content != null && typeof delta.content !== 'string') throw new Error('content that is not text');
    const known = this.#calls.get(index) ?? new Set();
    this.#calls.set(index, known);
    for (const { index: at, id, function: called } of (delta.tool_calls ?? []) as readonly Readonly<
      Record<string, unknown>
    >[]) {
      const { name, arguments: text } = called as Readonly<Record<string, unknown>>;
      if (typeof text !== 'string') throw new Error('arguments that are not text');
      if ((typeof id === 'string' && typeof name === 'string') === known.has(at))
        throw new Error('a call that is named twice or never');
      known.add(at);
    }
  }
}

/** Returns a body that some server might send, with any value in any place. */
function body(values: HostileValues): unknown {
  const any = (usual: unknown): unknown => (values.chance(0.15) ? values.json() : usual);
  const call = (): unknown => ({
    index: any(values.random.below(3)),
    id: any(values.one(['a', 'b', '', null])),
    function: any({
      name: any(values.one(['get', 'get_weather', '_weather', undefined])),
      arguments: any(values.one(['', '{', '"x":1}', '{}'])),
    }),
  });
  const said = {
    role: any('assistant'),
    content: any(values.one(['', 'a', null])),
    reasoning: any(values.one([undefined, 'so'])),
    tool_calls: any(values.chance(0.4) ? [call(), call()] : undefined),
  };
  const finish_reason = any(values.one([null, null, '', 'stop', 'tool_calls', 'length']));
  const choice = {
    index: any(values.random.below(2)),
    [values.one(['delta', 'message'])]: any(said),
    text: any(undefined),
    finish_reason,
  };
  const usage = { prompt_tokens: any(1), completion_tokens: any(2) };
  return any({ choices: any([any(choice)]), usage: any(usage), [values.one(['id', 'model', 'odd'])]: values.json() });
}

function mayRefuse(read: () => unknown): void {
  try {
    read();
  } catch (thrown) {
    if (!(thrown instanceof ServeError)) throw thrown;
  }
}
