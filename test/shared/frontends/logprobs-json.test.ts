import { describe, expect, it } from 'vitest';
import { completionLogprobs } from '../../../shared/frontends/http/openai/choices.ts';

const named = (tokenId: number, token: string, logprob: number) => ({ tokenId, token, bytes: [tokenId], logprob });

describe('log probabilities of completions', () => {
  it('keep the likeliest of several alternatives with one text, and the sampled token with its own value', () => {
    const part = '\ufffd'; // what every part of a character reads as
    const alternatives = [named(0x82, part, -0.5), named(0xe2, part, -2), named(0x61, 'a', -1), named(0x41, 'a', -3)];
    const [sampledPart] = completionLogprobs([{ ...named(0xe2, part, -2), top: alternatives }]).top_logprobs;
    expect(sampledPart).toEqual({ [part]: -2, a: -1 });
    const [sampledOther] = completionLogprobs([{ ...named(0x41, 'a', -3), top: alternatives }]).top_logprobs;
    expect(sampledOther).toEqual({ [part]: -0.5, a: -3 });
  });
});
