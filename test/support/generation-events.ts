import type { GenerationEvent } from '../../shared/protocol/generation/index.ts';

type Finish = Extract<GenerationEvent, { readonly kind: 'finish' }>;

/** Events of a first choice, as the pipeline writes them. */
export function finish(more: Partial<Finish> = {}): GenerationEvent {
  return { kind: 'finish', choice: 0, text: '', tokenIds: [], reason: 'stop', ...more };
}

export function reasoning(text: string): GenerationEvent {
  return { kind: 'reasoning', choice: 0, text };
}

export function toolCall(index: number, name: string): GenerationEvent {
  return { kind: 'tool-call', choice: 0, index, id: `call_${index}`, name };
}

export function toolArguments(index: number, text: string): GenerationEvent {
  return { kind: 'tool-arguments', choice: 0, index, text };
}
