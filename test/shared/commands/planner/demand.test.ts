import { describe, expect, it } from 'vitest';
import { demandSince, readDemand } from '../../../../shared/commands/planner/demand.ts';

const PREFIX = 'dynamo_frontend';

function page(started: number, gapSeconds: number): string {
  return [
    '# HELP dynamo_frontend_requests_started_total Requests that a handler took on.',
    '# TYPE dynamo_frontend_requests_started_total counter',
    `dynamo_frontend_requests_started_total{model="a",endpoint="chat_completions",request_type="stream"} ${started}`,
    `dynamo_frontend_requests_started_total{model="b {odd}",endpoint="completions",request_type="unary"} 5`,
    'dynamo_frontend_active_requests{model="a"} 7',
    'stator_frontend_held_requests{model="a"} 3',
    `dynamo_frontend_input_sequence_tokens_sum{model="a"} ${started * 100}`,
    `dynamo_frontend_input_sequence_tokens_count{model="a"} ${started}`,
    `dynamo_frontend_inter_token_latency_seconds_sum{model="a"} ${gapSeconds}`,
    `dynamo_frontend_inter_token_latency_seconds_count{model="a"} ${gapSeconds * 50}`,
    'dynamo_frontend_inter_token_latency_seconds_bucket{model="a",le="+Inf"} 1e9',
    'not a line of metrics',
    '',
  ].join('\n');
}

describe('what frontends have counted', () => {
  it('is added up over models and routes, and told as what happened between two looks', () => {
    const seen = demandSince(readDemand(page(10, 2), PREFIX), readDemand(page(30, 4), PREFIX));
    expect(seen).toMatchObject({ started: 20, running: 4, held: 3, isl: 100, osl: undefined });
    expect(seen.itlMs).toBeCloseTo(20, 9);
  });

  it('counts from nothing where a frontend began anew', () => {
    expect(demandSince(readDemand(page(1000, 9), PREFIX), readDemand(page(8, 9), PREFIX)).started).toBe(13);
  });

  it('is nothing on a page that has none of it', () => {
    const none = readDemand('up 1\n', PREFIX);
    expect(demandSince(none, none)).toEqual({
      started: 0,
      running: 0,
      held: 0,
      isl: undefined,
      osl: undefined,
      itlMs: undefined,
    });
  });
});
