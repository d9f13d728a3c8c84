import { describe, expect, it } from 'vitest';
import { DispatchEvents } from '../../../shared/frontends/http/openai/dispatch-events.ts';

function open(settings = { toolCalls: true, reasoning: true }): DispatchEvents {
  const events = DispatchEvents.for(settings, new Set());
  if (events === undefined) throw new Error('nothing to tell');
  return events;
}

const CALL = { index: 0, id: 'c0', type: 'function', function: { name: 'f', arguments: '{"x":1}' } };
const TELLS_CALL = `event: tool_call_dispatch\ndata: ${JSON.stringify({ choice_index: 0, tool_call: CALL })}\n\n`;
const tellsReasoning = (index: number, text: string): string =>
  `event: reasoning_dispatch\ndata: ${JSON.stringify({ index, reasoning_content: text })}\n\n`;

describe('side events of a chat stream', () => {
  it('tell the whole reasoning of a choice when something else follows, once', () => {
    const events = open();
    expect(events.reasoning(0, 'wh') + events.reasoning(0, 'y')).toBe('');
    expect(events.close(0)).toBe(tellsReasoning(0, 'why'));
    expect(events.reasoning(0, 'again') + events.close(0)).toBe('');
  });

  it('tell a whole call when the next one, content or the finish follows', () => {
    for (const follow of [
      (events: DispatchEvents) => events.callStart(0, 1, 'c1', 'g'),
      (events: DispatchEvents) => events.close(0),
    ]) {
      const events = open();
      expect(events.callStart(0, 0, 'c0', 'f')).toBe('');
      events.callArguments(0, '{"x"');
      events.callArguments(0, ':1}');
      expect(follow(events)).toBe(TELLS_CALL);
    }
  });

  it('keep choices apart', () => {
    const events = open();
    events.reasoning(0, 'a');
    events.reasoning(1, 'b');
    expect(events.close(1)).toBe(tellsReasoning(1, 'b'));
    expect(events.callStart(0, 0, 'c0', 'f')).toBe(tellsReasoning(0, 'a'));
  });

  it('are sent only as far as they are switched on', () => {
    expect(DispatchEvents.for({ toolCalls: false, reasoning: false }, new Set())).toBeUndefined();
    const events = open({ toolCalls: true, reasoning: false });
    events.reasoning(0, 'why');
    events.callStart(0, 0, 'c0', 'f');
    events.callArguments(0, '{"x":1}');
    expect(events.close(0)).toBe(TELLS_CALL);
  });
});
