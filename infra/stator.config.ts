import type { StatorConfig } from './settings/index.ts';

/**
 * What `npx cdk deploy` makes of this repository. Everything left out has the default of `infra/settings/`, which also
 * says what there is. `-c config=PATH` names another file.
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
  limits: { requestsPerSecond: 100, burst: 200, holdSecs: 120, maxTokensFunction: 8192 },
};

// biome-ignore lint/style/noDefaultExport: what is read of a configuration file
export default config;
