import fc from 'fast-check';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { createToolCallParser, type ToolCallOptions, type ToolCallSink } from '../../../../shared/parsers/index.ts';
import type { FinishReason, ToolDefinition } from '../../../../shared/protocol/index.ts';

export interface ReadCall {
  readonly id: string;
  readonly name: string;
  arguments: string;
}

export interface ReadMessage {
  readonly content: string;
  readonly calls: readonly ReadCall[];
  readonly reason: FinishReason | null;
}

export type ReadOptions = Partial<Pick<ToolCallOptions, 'tools' | 'toolChoice' | 'parallelToolCalls'>> & {
  readonly finish?: FinishReason | null;
};

/** Properties of each parameter by tool name, as a client declares them. */
export function declare(tools: Readonly<Record<string, Readonly<Record<string, unknown>>>>): ToolDefinition[] {
  return Object.entries(tools).map(([name, properties]) => ({
    type: 'function',
    function: { name, parameters: { type: 'object', properties } },
  }));
}

/** Reads a message from its pieces; `onPiece` sees what has come out after each of them. */
export function readCalls(
  name: string | undefined,
  pieces: readonly string[],
  options: ReadOptions = {},
  onPiece?: (soFar: ReadMessage) => void,
): ReadMessage {
  let content = '';
  const calls: ReadCall[] = [];
  const sink: ToolCallSink = {
    content: (text) => {
      if (text === '') throw new Error('empty content');
      content += text;
    },
    callStart: (index, id, callName) => {
      if (index !== calls.length) throw new Error(`call ${index} begins after ${calls.length} calls`);
      if (callName === '' || id === '') throw new Error('a call without name or id');
      calls.push({ id, name: callName, arguments: '' });
    },
    callArguments: (index, fragment) => {
      if (index !== calls.length - 1 || fragment === '') throw new Error(`'${fragment}' for call ${index}`);
      calls[index]!.arguments += fragment;
    },
  };
  const { finish = 'stop', tools = declare({ dummy: {} }), ...rest } = options;
  const parser = createToolCallParser(name, { tools, random: seededRandom(7), ...rest });
  if (parser === undefined) return { content: pieces.join(''), calls, reason: finish };
  for (const piece of pieces) {
    parser.push(piece, sink);
    onPiece?.({ content, calls, reason: null });
  }
  const reason = parser.end(finish, sink);
  return { content, calls, reason };
}

/** The text cut at random places, between any two UTF-16 units. */
export function anyCut(text: string): fc.Arbitrary<readonly string[]> {
  return fc.array(fc.nat(text.length), { maxLength: 12 }).map((places) => {
    const ends = [...places.sort((first, second) => first - second), text.length];
    return ends.map((end, at) => text.slice(ends[at - 1] ?? 0, end));
  });
}
