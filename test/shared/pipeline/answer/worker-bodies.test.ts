import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../../shared/clock/index.ts';
import { ResponseAssembler } from '../../../../shared/pipeline/answer/response-assembler.ts';
import { BODY_PARTS } from '../../../support/fuzz/body-parts.ts';
import { HostileValues } from '../../../support/fuzz/hostile-values.ts';
import { idleMeter, letterModel, model, preprocessNow, RecordingSink, request } from '../fixtures.ts';

describe('the bodies of a worker', () => {
  it.each(Object.keys(BODY_PARTS))('are shown in the published shape or refused, whatever they hold: %s', (name) => {
    for (let seed = 0; seed < 300; seed++) BODY_PARTS[name]?.(new HostileValues(seededRandom(seed)));
  });

  it('tell the usage by which the request is counted, before and after its end', () => {
    const sink = new RecordingSink();
    const told: (readonly [string, number])[] = [];
    const meter = {
      ...idleMeter,
      promptEstimate: (count: number) => void told.push(['estimate', count]),
      promptTokens: (count: number) => void told.push(['prompt', count]),
      piece: () => void told.push(['piece', 1]),
      piecesHold: (count: number) => void told.push(['pieces', count]),
    };
    const asked = request();
    const prompt = { ...preprocessNow(asked, model(), letterModel), promptTokens: 0 };
    const answer = new ResponseAssembler(asked, prompt, undefined, sink, meter);
    const usage = { prompt_tokens: 7, completion_tokens: 20 };
    answer.output({ body: { choices: [{ index: 0, text: 'a' }], usage } });
    answer.end();
    expect(told).toEqual([
      ['estimate', 1],
      ['piece', 1],
      ['prompt', 7],
      ['pieces', 20],
    ]);
    expect(sink.ended?.usage).toMatchObject({ promptTokens: 7, completionTokens: 20 });
  });
});
