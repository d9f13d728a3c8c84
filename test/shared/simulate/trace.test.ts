import { describe, expect, it } from 'vitest';
import { parseTrace, TraceError } from '../../../shared/simulate/trace.ts';

const GOOD = { timestamp: 0, input_length: 1000, output_length: 20, hash_ids: [7, 9] };

function lines(...records: readonly object[]): string {
  return records.map((record) => JSON.stringify(record)).join('\n');
}

function faultOf(text: string): TraceError {
  try {
    parseTrace(text, 512);
  } catch (thrown) {
    if (thrown instanceof TraceError) return thrown;
    throw thrown;
  }
  throw new Error('the trace was taken');
}

describe('parseTrace', () => {
  it('reads requests into columns, with ids numbered by first use', () => {
    const workload = parseTrace(
      `${lines(GOOD, { timestamp: 250, input_length: 1537, output_length: 3, hash_ids: [7, 2 ** 40, 9, 5] })}\n`,
      512,
    );
    expect(workload.size).toBe(2);
    expect([...workload.arrivalMs]).toEqual([0, 250]);
    expect([...workload.inputTokens]).toEqual([1000, 1537]);
    expect([...workload.outputTokens]).toEqual([20, 3]);
    expect([...workload.segmentsFrom]).toEqual([0, 2, 6]);
    expect([...workload.segmentIds]).toEqual([0, 1, 0, 2, 1, 3]);
  });

  it('starts at the first arrival, whatever its timestamp, and takes created_time for timestamp', () => {
    const { timestamp: _, ...rest } = GOOD;
    const workload = parseTrace(lines({ ...rest, created_time: 5000 }, { ...rest, created_time: 5600 }), 512);
    expect([...workload.arrivalMs]).toEqual([0, 600]);
  });

  it('skips empty lines but counts them', () => {
    const fault = faultOf(`${lines(GOOD)}\n\n{"timestamp":1}\n`);
    expect(fault.line).toBe(3);
    expect(fault.field).toBe('input_length');
  });

  it('lets a later turn of a session go without a timestamp and wait for the turn before', () => {
    const { timestamp: _, ...turn } = GOOD;
    const workload = parseTrace(
      lines({ ...GOOD, session_id: 'a' }, { ...GOOD, timestamp: 10 }, { ...turn, session_id: 'a', delay: 40 }),
      512,
    );
    expect([...workload.nextTurn]).toEqual([2, -1, -1]);
    expect([...workload.previousTurn]).toEqual([-1, -1, 0]);
    expect(workload.delayMs[2]).toBe(40);
  });

  it('reads priorities', () => {
    const workload = parseTrace(lines({ ...GOOD, priority: 2.5, strict_priority: 3 }), 512);
    expect(workload.priorityJump[0]).toBe(2.5);
    expect(workload.strictPriority[0]).toBe(3);
  });

  it('gives an answer of no tokens the one that its prefill makes', () => {
    expect(parseTrace(lines({ ...GOOD, output_length: 0 }), 512).outputTokens[0]).toBe(1);
  });

  it.each([
    ['input_length', { ...GOOD, input_length: 0 }, 'must be a number from 1 to 2147483648, got 0'],
    ['input_length', { ...GOOD, input_length: '1000' }, 'got "1000"'],
    ['output_length', { ...GOOD, output_length: 1.5 }, 'must be a whole number, got 1.5'],
    ['output_length', { timestamp: 0, input_length: 5, hash_ids: [1] }, 'is missing'],
    ['timestamp', { input_length: 5, output_length: 1, hash_ids: [1] }, 'is missing'],
    ['timestamp', { ...GOOD, timestamp: -1 }, 'got -1'],
    ['hash_ids', { ...GOOD, hash_ids: undefined }, 'must be a list'],
    [
      'hash_ids',
      { ...GOOD, hash_ids: [1] },
      'must hold 2 ids, one per 512 tokens of the prompt, got 1; --trace-block-size',
    ],
    ['hash_ids', { ...GOOD, hash_ids: [1, 'x'] }, 'must hold whole numbers, got "x"'],
    ['session_id', { ...GOOD, session_id: {} }, 'must be a text'],
    ['strict_priority', { ...GOOD, strict_priority: -1 }, 'got -1'],
  ])('names line and field of a bad %s', (field, record, text) => {
    const fault = faultOf(lines(GOOD, record));
    expect(fault.line).toBe(2);
    expect(fault.field).toBe(field);
    expect(fault.message).toMatch(/^line 2: field "/);
    expect(fault.message).toContain(text);
  });

  it('refuses an arrival before the one of the line before', () => {
    const fault = faultOf(lines({ ...GOOD, timestamp: 10 }, { ...GOOD, timestamp: 9 }));
    expect(fault.message).toBe('line 2: field "timestamp" is earlier than that of the line before');
  });

  it.each([
    ['{"timestamp":0,', 'line 1: is not JSON: {"timestamp":0,'],
    ['[1]', 'line 1: is not a JSON object'],
    ['', 'line 1: the trace holds no request'],
  ])('says what is wrong with %j', (text, message) => {
    expect(faultOf(text).message).toBe(message);
  });
});
