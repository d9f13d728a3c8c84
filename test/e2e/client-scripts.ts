import type { WorkerScript } from '../support/scripted-engine.ts';

const raise = (code: number): WorkerScript => ({
  steps: [],
  finish: null,
  raise: { type: 'HttpError', msg: 'worker says no', code },
});

const SCRIPTS = {
  hello: { steps: [{ t: 'Hello' }, { t: ' there' }, { t: '!' }], finish: 'eos' },
  think: { steps: [{ t: '<think>plan ' }, { t: 'it</think>' }, { t: '\n\nHi' }], finish: 'eos' },
  json: { steps: [{ t: '{"n"' }, { t: ': 7}' }], finish: 'eos' },
  json_call: { steps: [{ t: '[{"name": "json", "para' }, { t: 'meters": {"n": 7}}]' }], finish: 'eos' },
  extract_call: {
    steps: [{ t: '[{"name": "extract", "para' }, { t: 'meters": {"n": 7}}]' }],
    finish: 'eos',
  },
  call: {
    steps: [
      { t: 'Let me look. <tool_call>\n{"name": "get_weather", "argu' },
      { t: 'ments": {"city":' },
      { t: ' "Par' },
      { t: 'is"}}\n</tool_call>' },
    ],
    finish: 'eos',
  },
  custom_call: {
    steps: [
      { t: '<tool_call>\n{"name": "patch", "argu' },
      { t: 'ments": {"input": "*** Be' },
      { t: 'gin\\nsay \\"hi\\""}}\n</tool_call>' },
    ],
    finish: 'eos',
  },
  cut_call: {
    steps: [{ t: '<tool_call>\n{"name": "get_weather", "arguments": {"city":' }, { t: ' "Par' }],
    finish: 'length',
  },
  answer: { steps: [{ t: 'It is ' }, { t: 'warm.' }], finish: 'eos' },
  endless: { steps: Array.from({ length: 199 }, () => ({ t: 'a' })), sleep: 0.05, finish: 'eos' },
  breaks: {
    steps: [{ t: 'Hello' }, { t: ' there' }],
    finish: null,
    raise: { type: 'RuntimeError', msg: 'x' },
    raise_at: 1,
  },
  full: raise(529),
  limited: raise(429),
  refused: raise(401),
  broken: raise(500),
} as const satisfies Record<string, WorkerScript>;

/** A script that the clients' tests ask the engine for, by a tag in the prompt. */
export type ClientScript = keyof typeof SCRIPTS;

export const CLIENT_SCRIPTS: ReadonlyMap<string, WorkerScript> = new Map(Object.entries(SCRIPTS));
