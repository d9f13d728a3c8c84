import { describe, expect, it } from 'vitest';
import { mediaParts } from '../../../../shared/pipeline/prompt/prompt-tokens.ts';
import type { ChatMessage } from '../../../../shared/protocol/index.ts';

const mediaOf = (...messages: ChatMessage[]) => mediaParts({ kind: 'chat', messages });

describe('the media of a chat', () => {
  it('are listed by kind, in the order of the prompt', () => {
    const image = (url: string) => ({ type: 'image_url', image_url: { url } });
    const first = { role: 'user', content: [{ type: 'text', text: 'a' }, image('http://x/1'), image('http://x/2')] };
    const second = {
      role: 'user',
      content: [
        { type: 'video_url', video_url: { url: 'http://x/v' } },
        image('http://x/3'),
        { type: 'input_audio', input_audio: { data: 'AA==', format: 'wav' } },
        { type: 'audio_url', audio_url: { url: 'http://x/a' } },
      ],
    };
    expect(mediaOf(first, { role: 'assistant', content: 'b' }, second)).toEqual({
      image_url: [{ Url: 'http://x/1' }, { Url: 'http://x/2' }, { Url: 'http://x/3' }],
      video_url: [{ Url: 'http://x/v' }],
      audio_url: [{ Url: 'http://x/a' }],
    });
  });

  it('are an empty list if there are only words', () => {
    expect(mediaOf({ role: 'user', content: 'a' }, { role: 'assistant', content: null })).toBeUndefined();
    expect(mediaOf({ role: 'user', content: [{ type: 'text', text: 'a' }] })).toBeUndefined();
    expect(mediaParts({ kind: 'raw', text: 'a' })).toBeUndefined();
  });
});
