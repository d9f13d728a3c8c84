import { describe, expect, it } from 'vitest';
import { PlannerConfigError, parsePlannerConfig } from '../../../shared/planner/config.ts';

describe('the configuration of a planner', () => {
  it("is the rate law with Dynamo's defaults where nothing is said", () => {
    expect(parsePlannerConfig({})).toMatchObject({
      law: 'rate',
      mode: 'disagg',
      ttftMs: 500,
      itlMs: 50,
      maxGpuBudget: 8,
      minEndpoint: 1,
      loadPredictor: 'kalman',
      tickSeconds: 5,
    });
  });

  it("knows Dynamo's targets as laws, older names of keys, and leaves unknown keys alone", () => {
    const config = parsePlannerConfig({
      optimization_target: 'latency',
      ttft: 250,
      no_operation: true,
      of_tomorrow: 1,
    });
    expect(config).toMatchObject({ law: 'latency', ttftMs: 250, advisory: true });
    expect(parsePlannerConfig({ optimization_target: 'latency' }, 'rate').law).toBe('rate');
  });

  it('takes the newer of two names', () => {
    expect(parsePlannerConfig({ ttft_ms: 100, ttft: 250 }).ttftMs).toBe(100);
  });

  it.each([
    [{ throughput_adjustment_interval: 180, optimization_target: 'sla', enable_load_scaling: true }, 5],
    [{ load_adjustment_interval: 7, optimization_target: 'sla', enable_load_scaling: true }, 1],
    [{ scheduling: { scale_interval_seconds: 2.5 } }, 2.5],
  ])('ticks so that every loop is met: %j', (raw, seconds) => {
    expect(parsePlannerConfig(raw).tickSeconds).toBe(seconds);
  });

  it.each([
    [{ mode: 'both' }, 'mode: Invalid option: expected one of "disagg"|"prefill"|"decode"|"agg"'],
    [{ load_predictor: 'prophet' }, 'load_predictor: prophet is not served; use seasonal'],
    [{ load_predictor: 'neural' }, 'load_predictor: Invalid option: expected one of "constant"|"moving"'],
    [{ ttft_ms: 0 }, 'ttft_ms: Too small'],
    [{ itl_ms: Number.NaN }, 'itl_ms: Invalid input'],
    [{ max_gpu_budget: 1.5 }, 'max_gpu_budget: Invalid input'],
    [{ min_gpu_budget: 9, max_gpu_budget: 8 }, 'min_gpu_budget 9 is above max_gpu_budget 8'],
    [{ scheduling: { interval: 1 } }, 'scheduling: Unrecognized key: "interval"'],
    [{ scheduling: { scale_interval_seconds: 2 } }, 'must divide the interval 5 of a loop'],
    [
      { law: 'sla', enable_throughput_scaling: false },
      'law sla needs enable_throughput_scaling or enable_load_scaling',
    ],
    [{ law: 'load' }, 'law load needs prefill_scale_up_queue_tokens and prefill_scale_down_queue_tokens'],
    [
      { law: 'load', mode: 'agg', decode_scale_up_kv_rate: 30, decode_scale_down_kv_rate: 30 },
      'decode_scale_up_kv_rate 30 must be above',
    ],
    [{ mode: 'agg', decode_min_endpoint: 2 }, 'decode_min_endpoint is not for mode agg'],
    [{ fpm_sample_bucket_size: 15 }, 'fpm_sample_bucket_size 15 must be a perfect square'],
    [{ enable_power_awareness: true }, 'enable_power_awareness needs total_gpu_power_limit'],
    [
      { law: 'sla', enable_load_scaling: true, load_adjustment_interval_seconds: 180 },
      'must be below throughput_adjustment_interval_seconds 180',
    ],
    ['a text', 'it: Invalid input'],
  ])('is refused by name: %j', (raw, problem) => {
    expect(() => parsePlannerConfig(raw)).toThrow(PlannerConfigError);
    expect(() => parsePlannerConfig(raw)).toThrow(problem);
  });
});
