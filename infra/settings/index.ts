export { replicasPerInstance, warningsOfFleet } from './ec2-checks.ts';
export {
  type CapacityOption,
  type Ec2FleetSettings,
  groupNameOf,
  marketOf,
  optionIdOf,
  replicasMinOf,
} from './ec2-fleets.ts';
export { warningsOfEksFleet } from './eks-checks.ts';
export {
  type EksFleetSettings,
  isReserved,
  modelsGibOf,
  nodePoolNameOf,
  nodesOf,
  type PodOption,
  placeOf,
  workloadNamesOf,
} from './eks-fleets.ts';
export { namespacesOf, passesBlocks, stackOf } from './fleets.ts';
export { type GivenTypes, type GpuType, typeOf } from './gpu-types.ts';
export { holdSecsOf } from './limits.ts';
export { loadConfig } from './load.ts';
export {
  imageCostsOf,
  imageParameterOf,
  type MachineImageSettings,
  type StartImage,
  startImageOf,
  workerImagesIn,
} from './machine-images.ts';
export { zonesOf } from './network.ts';
export { hasPlanner } from './planner.ts';
export { SettingsError } from './problems.ts';
export { forProduction, reservedConcurrency } from './production.ts';
export { ENVIRONMENTS, readSettings, type Settings, type StatorConfig } from './settings.ts';
