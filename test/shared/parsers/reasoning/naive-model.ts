import type { Split } from './run-parser.ts';

/** A marker format. */
export interface NaiveFormat {
  readonly open: readonly string[];
  readonly close: readonly string[];
  readonly assumed?: boolean;
  readonly exits?: readonly string[];
  readonly framing?: readonly string[];
  readonly label?: string;
  readonly once?: boolean;
}

const THINK: NaiveFormat = { open: ['<think>'], close: ['</think>'] };

export const NAIVE_FORMATS: Readonly<Record<string, NaiveFormat>> = {
  basic: THINK,
  deepseek_r1: { ...THINK, assumed: true },
  deepseek_v4: { ...THINK, exits: ['<｜DSML｜tool_calls>', '<｜DSML｜invoke name='] },
  kimi_k25: { ...THINK, assumed: true, exits: ['<|tool_calls_section_begin|>'] },
  minimax_m2: { ...THINK, assumed: true, exits: ['<minimax:tool_call>', '<invoke name='] },
  minimax_m3: { open: ['<mm:think>'], close: ['</mm:think>'], exits: [']<]minimax[>['] },
  mistral: { open: ['[THINK]'], close: ['[/THINK]'], assumed: true },
  kimi: { open: ['◁think▷'], close: ['◁/think▷'] },
  kimi_k3: {
    open: ['<|open|>think<|sep|>'],
    close: ['<|close|>think<|sep|>'],
    exits: ['<|open|>', '<|close|>', '<|end_of_msg|>'],
    framing: [
      '<|open|>response<|sep|>',
      '<|close|>response<|sep|>',
      '<|open|>message<|sep|>',
      '<|close|>message<|sep|>',
      '<|end_of_msg|>',
    ],
  },
  granite: {
    open: ["Here's my thought process:", 'Here is my thought process:'],
    close: ["Here's my response:", 'Here is my response:'],
    once: true,
  },
  gemma4: { open: ['<|channel>'], close: ['<channel|>'], label: 'thought\n' },
};

/** Position and text of the first of `markers` in `text`, the longest where several begin together. */
function first(text: string, markers: readonly string[]): readonly [number, string] | undefined {
  const hits = markers.map((marker) => [text.indexOf(marker), marker] as const).filter(([at]) => at >= 0);
  return hits.sort((a, b) => a[0] - b[0] || b[1].length - a[1].length)[0];
}

/** Takes a whole text apart by rewriting it from the left, with no thought of streams. */
export function splitNaively(format: NaiveFormat, whole: string): Split {
  const { open, close, assumed = false, exits = [], framing = [], label = '', once = false } = format;
  let reasoning = '';
  let content = '';
  let text = whole;
  let isInside = assumed;
  if (assumed) text = text.slice(open.find((opener) => text.startsWith(opener))?.length ?? 0);
  for (;;) {
    const hit = first(text, isInside ? [...close, ...exits] : [...open, ...(once ? [] : close), ...framing]);
    const span = hit === undefined ? text : text.slice(0, hit[0]);
    if (!isInside) content += span;
    else if (span.startsWith(label)) reasoning += span.slice(label.length);
    else if (!label.startsWith(span)) reasoning += span;
    if (hit === undefined) return { reasoning, content };
    const [at, marker] = hit;
    text = text.slice(isInside && exits.includes(marker) ? at : at + marker.length);
    if (isInside && once) return { reasoning, content: content + text };
    isInside = !isInside && open.includes(marker);
  }
}
