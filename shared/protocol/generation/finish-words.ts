import type { FinishReason } from './generation-sink.ts';

/** What engines, servers and workers from code call the end of a choice. */
const FINISHES: ReadonlyMap<string, FinishReason> = new Map([
  ['stop', 'stop'],
  ['eos', 'stop'],
  ['eos_token', 'stop'],
  ['end_turn', 'stop'],
  ['stop_sequence', 'stop'],
  ['complete', 'stop'],
  ['length', 'length'],
  ['max_tokens', 'length'],
  ['max_output_tokens', 'length'],
  ['model_length', 'length'],
  ['repetition', 'length'], // it was cut, as at its length
  ['tool_calls', 'tool_calls'],
  ['tool_use', 'tool_calls'],
  ['function_call', 'tool_calls'],
  ['content_filter', 'content_filter'],
  ['safety', 'content_filter'],
]);

/** The reason that a word stands for; undefined for one that nobody knows, or that says that the choice was given up. */
export function finishReasonOf(word: string): FinishReason | undefined {
  return FINISHES.get(word.toLowerCase());
}

/** The same where calls are found in the text: that there are some is ours to find out. */
export function textFinishOf(word: string): Exclude<FinishReason, 'tool_calls'> | undefined {
  const reason = finishReasonOf(word);
  return reason === 'tool_calls' ? 'stop' : reason;
}
