export { namespacesOf, passesBlocks, stackOf } from './fleets.ts';
export { loadConfig } from './load.ts';
export { zonesOf } from './network.ts';
export { SettingsError } from './problems.ts';
export { forProduction, reservedConcurrency } from './production.ts';
export { ENVIRONMENTS, readSettings, type Settings, type StatorConfig } from './settings.ts';
