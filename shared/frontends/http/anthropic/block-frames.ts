import { isAscii } from '../answers/ascii.ts';
import type { SseStream } from '../answers/sse-stream.ts';

/** One server-sent event of a Messages stream; `json` is the text of its data. */
export function eventFrame(type: string, json: string): string {
  return `event: ${type}\ndata: ${json}\n\n`;
}

type BlockKind = 'text' | 'thinking' | 'tool_use';

const DELTAS: Readonly<Record<BlockKind, string>> = {
  text: '"text_delta","text":',
  thinking: '"thinking_delta","thinking":',
  tool_use: '"input_json_delta","partial_json":',
};
const DELTA_END = '}}\n\n';
const TEXT_BLOCK = '{"type":"text","text":""}';
const THINKING_BLOCK = '{"type":"thinking","thinking":"","signature":""}';
/** Clients expect a signature with every thought; ours cannot be checked. */
const SIGNATURE_DELTA = '{"type":"signature_delta","signature":"erased"}';

/**
 * The content blocks of one Messages stream in the order of generation, one open at a time. A
 * delta is three strings put together; the first is built when its block opens.
 */
export class BlockFrames {
  readonly #out: SseStream;
  #index = -1;
  #kind: BlockKind | undefined;
  /** Which of the engine's calls the open tool block is. */
  #toolIndex = -1;
  #deltaStart = '';

  constructor(out: SseStream) {
    this.#out = out;
  }

  /** The hot path. */
  text(text: string): void {
    if (this.#kind !== 'text') this.#open('text', TEXT_BLOCK);
    this.#delta(text);
  }

  thinking(text: string): void {
    if (this.#kind !== 'thinking') this.#open('thinking', THINKING_BLOCK);
    this.#delta(text);
  }

  /** @param index the engine's number of the call */
  toolUse(index: number, id: string, name: string): void {
    const block = `{"type":"tool_use","id":${JSON.stringify(id)},"name":${JSON.stringify(name)},"input":{}}`;
    this.#open('tool_use', block);
    this.#toolIndex = index;
  }

  /** False when that call is not the one whose block is open: a closed block cannot grow. */
  toolInput(index: number, text: string): boolean {
    if (this.#kind !== 'tool_use' || this.#toolIndex !== index) return false;
    if (text !== '') this.#delta(text);
    return true;
  }

  /** Ends the open block, if there is one. */
  close(): void {
    if (this.#kind === undefined) return;
    if (this.#kind === 'thinking') {
      const json = `{"type":"content_block_delta","index":${this.#index},"delta":${SIGNATURE_DELTA}}`;
      this.#out.write(eventFrame('content_block_delta', json));
    }
    this.#kind = undefined;
    this.#out.write(eventFrame('content_block_stop', `{"type":"content_block_stop","index":${this.#index}}`));
  }

  #open(kind: BlockKind, block: string): void {
    this.close();
    const index = ++this.#index;
    this.#kind = kind;
    this.#deltaStart = `event: content_block_delta\ndata: {"type":"content_block_delta","index":${index},"delta":{"type":${DELTAS[kind]}`;
    const json = `{"type":"content_block_start","index":${index},"content_block":${block}}`;
    this.#out.write(eventFrame('content_block_start', json));
  }

  #delta(text: string): void {
    this.#out.write(this.#deltaStart + JSON.stringify(text) + DELTA_END, isAscii(text));
  }
}
