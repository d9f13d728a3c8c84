/**
 * Words with which servers say that a prompt does not fit into the context: those of OpenAI, Anthropic, vLLM, SGLang,
 * llama.cpp, LM Studio, Ollama and Mistral.
 */
const TOO_LONG =
  /context (?:length|window|size)|context_length|maximum (?:context|model length)|prompt (?:is )?too long/i;
const SGLANG_TOO_LONG = /input length \(\d+ tokens\) exceeds/i;

/** Returns whether the message of a refusal says that the prompt is longer than the context. */
export function saysTooLong(message: string): boolean {
  return TOO_LONG.test(message) || SGLANG_TOO_LONG.test(message);
}

/** Beginning of Anthropic's message. Its clients compact a conversation only if they read these words. */
const ANTHROPIC_WORDS = 'prompt is too long';

/**
 * Returns the message for a prompt that does not fit, in Anthropic's words, from which its clients also read both
 * numbers.
 * @param tokens length of the prompt, e.g. `200` or `at least 200`
 */
export function anthropicTooLong(tokens: string, contextLength: number): string {
  return `${ANTHROPIC_WORDS}: ${tokens} tokens > ${contextLength} maximum`;
}

/** Puts Anthropic's words before a message of a worker that says the same in other words. */
export function inAnthropicWords(message: string): string {
  return message.toLowerCase().includes(ANTHROPIC_WORDS) ? message : `${ANTHROPIC_WORDS}: ${message}`;
}
