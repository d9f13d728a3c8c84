import type { StatorConfig } from './settings/index.ts';

/**
 * The deployment that `npx cdk deploy` creates from this repository. Settings that are left out have the defaults of
 * `infra/settings/`, which also lists them all. `-c config=PATH` names another file.
 */
const config: StatorConfig = {
  models: {
    'stator-mini': { wanted: true }, // built in: a tokenizer and a template without weights
  },
  fleets: {
    mock: { kind: 'mock', model: 'stator-mini', workers: 2 },
  },
  edges: {
    function: { memoryMb: 1769 },
    container: { tasks: 2, tasksMax: 8 },
  },
  limits: { requestsPerSecond: 100, burst: 200, maxTokensFunction: 8192 },
};

// biome-ignore lint/style/noDefaultExport: what is read of a configuration file
export default config;
