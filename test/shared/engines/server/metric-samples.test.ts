import { describe, expect, it } from 'vitest';
import { relabelEngineMetrics } from '../../../../shared/engines/index.ts';
import { readSamples } from '../../../../shared/engines/server/engine-metrics.ts';

const TEXT = `# HELP vllm:a Things, {odd} ones.
# TYPE vllm:a gauge
vllm:a{engine="0",model_name="x \\"y\\" \\\\ z"} 1.5
vllm:a{engine="1"} 2e3 1700000000000
vllm:b 7
vllm:a_more{engine="0"} 9
# HELP python_gc Not the engine's.
python_gc{generation="0"} 3
sglang:c NaN
`;

describe('metrics of engines', () => {
  it('reads the samples that are asked for, with labels', () => {
    expect(readSamples(TEXT, new Set(['vllm:a', 'vllm:b', 'sglang:c']))).toEqual([
      { name: 'vllm:a', labels: { engine: '0', model_name: 'x "y" \\ z' }, value: 1.5 },
      { name: 'vllm:a', labels: { engine: '1' }, value: 2000 },
      { name: 'vllm:b', labels: {}, value: 7 },
    ]);
    expect(readSamples('', new Set(['vllm:a']))).toEqual([]);
    expect(readSamples('<html>vllm:a</html>', new Set(['vllm:a']))).toEqual([]);
  });

  it('passes the engine’s own on with our labels, and overwrites none', () => {
    expect(relabelEngineMetrics(TEXT, { engine: 'ours', dynamo_component: 'b"c' })).toBe(
      `# HELP vllm:a Things, {odd} ones.
# TYPE vllm:a gauge
vllm:a{engine="0",model_name="x \\"y\\" \\\\ z",dynamo_component="b\\"c"} 1.5
vllm:a{engine="1",dynamo_component="b\\"c"} 2e3 1700000000000
vllm:b{engine="ours",dynamo_component="b\\"c"} 7
vllm:a_more{engine="0",dynamo_component="b\\"c"} 9
sglang:c{engine="ours",dynamo_component="b\\"c"} NaN
`,
    );
    expect(relabelEngineMetrics('', { a: 'b' })).toBe('');
  });
});
