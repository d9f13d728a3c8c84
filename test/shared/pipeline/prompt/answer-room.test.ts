import { describe, expect, it } from 'vitest';
import type { GenerationRequest } from '../../../../shared/protocol/index.ts';
import { letterModel, model, preprocessNow, request } from '../fixtures.ts';

const asked = (more: Partial<GenerationRequest>) =>
  preprocessNow(request({ stream: false, ...more }), model(), letterModel).request.stop.max_tokens;

describe('an answer that is kept until it is whole', () => {
  it('is asked for with what it has room for, when the client named no number', () => {
    expect(asked({ answerTokensMax: 50 })).toBe(50);
    expect(asked({ answerTokensMax: 500 })).toBe(97); // of a context of 100, the prompt has 3
  });

  it('is refused when more than that was asked for, with the fields that make it large', () => {
    const stop = { max_tokens: 60 };
    expect(() => asked({ answerTokensMax: 50, stop, sampling: { n: 24 }, output: { logprobs: 20 } })).toThrow(
      'n (24) x max_tokens (60) x (1 + top_logprobs (20)) is more than an answer may hold that is not streamed ' +
        '(STATOR_HTTP_ANSWER_LIMIT_MB): it has room for 50 tokens of each choice; ask for less, or stream it',
    );
    expect(asked({ answerTokensMax: 60, stop })).toBe(60);
  });

  it('is judged by what the context leaves of what was asked for', () => {
    expect(asked({ answerTokensMax: 97, stop: { max_tokens: 4_000_000_000 } })).toBe(97);
  });
});
