import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../../shared/clock/index.ts';
import { continueTrace, parseTraceparent } from '../../../shared/telemetry/index.ts';
import { formatTraceparent } from '../../../shared/telemetry/trace-context.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';

describe('continueTrace', () => {
  it('keeps the trace, takes a span of its own and names the caller as parent', () => {
    const context = continueTrace({ traceparent: `00-${TRACE}-${SPAN}-01`, tracestate: 'a=1,b=2' }, seededRandom(1));
    expect(context).toMatchObject({ traceId: TRACE, parentSpanId: SPAN, traceFlags: 1, tracestate: 'a=1,b=2' });
    expect(context.spanId).not.toBe(SPAN);
    expect(context.traceparent).toBe(`00-${TRACE}-${context.spanId}-01`);
  });

  it('keeps the caller’s decision not to sample, and drops flags it does not know', () => {
    expect(continueTrace({ traceparent: `00-${TRACE}-${SPAN}-00` }).traceparent).toMatch(/-00$/);
    expect(continueTrace({ traceparent: `00-${TRACE}-${SPAN}-ff` }).traceparent).toMatch(/-01$/);
  });

  it.each([
    ['no header', undefined],
    ['empty text', ''],
    ['upper case', `00-${TRACE.toUpperCase()}-${SPAN}-01`],
    ['a trace id of zeros', `00-${'0'.repeat(32)}-${SPAN}-01`],
    ['a span id of zeros', `00-${TRACE}-${'0'.repeat(16)}-01`],
    ['version ff', `ff-${TRACE}-${SPAN}-01`],
    ['more fields under version 00', `00-${TRACE}-${SPAN}-01-x`],
    ['a short id', `00-${TRACE.slice(1)}-${SPAN}-01`],
    ['two headers', [`00-${TRACE}-${SPAN}-01`, `00-${TRACE}-${SPAN}-01`]],
  ])('starts a new sampled trace and drops tracestate on %s', (_case, traceparent) => {
    const context = continueTrace({ traceparent, tracestate: 'a=1' }, seededRandom(1));
    expect(context).toMatchObject({ parentSpanId: undefined, tracestate: undefined, traceFlags: 1 });
    expect(context.traceId).not.toBe(TRACE);
    expect(parseTraceparent(context.traceparent)).toMatchObject({ traceId: context.traceId, spanId: context.spanId });
  });

  it('reads what it can of a later version', () => {
    expect(continueTrace({ traceparent: `42-${TRACE}-${SPAN}-01-more` }).traceId).toBe(TRACE);
  });

  it('joins several tracestate headers and cuts a long one between members', () => {
    const traceparent = `00-${TRACE}-${SPAN}-01`;
    expect(continueTrace({ traceparent, tracestate: ['a=1', 'b=2'] }).tracestate).toBe('a=1,b=2');
    const long = Array.from({ length: 40 }, (_, index) => `vendor${index}=${'v'.repeat(20)}`).join(',');
    const kept = continueTrace({ traceparent, tracestate: long }).tracestate ?? '';
    expect(kept.length).toBeLessThanOrEqual(512);
    expect(long.startsWith(`${kept},`)).toBe(true);
    expect(continueTrace({ traceparent, tracestate: `a=${'v'.repeat(600)}` }).tracestate).toBeUndefined();
  });
});

describe('traceparent', () => {
  it('reads back what it writes, for any ids', () => {
    const hex = (length: number) =>
      fc
        .array(fc.constantFrom(...'0123456789abcdef'), { minLength: length, maxLength: length })
        .map((digits) => digits.join(''))
        .filter((text) => !/^0+$/.test(text));
    fc.assert(
      fc.property(hex(32), hex(16), fc.constantFrom(0, 1), (traceId, spanId, traceFlags) => {
        const header = formatTraceparent({ traceId, spanId, traceFlags });
        expect(parseTraceparent(header)).toEqual({ traceId, spanId, traceFlags, isRemote: true });
      }),
    );
  });

  it('never throws on what a client may send', () => {
    fc.assert(fc.property(fc.string(), (text) => void parseTraceparent(text)));
  });
});
