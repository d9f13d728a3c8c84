import * as z from 'zod';
import { checkWanted } from './alarmed-models.ts';
import { Alarms } from './alarms.ts';
import { checkNames, Domain } from './domain.ts';
import { checkEdges, Edges } from './edges.ts';
import { checkEks, Eks } from './eks.ts';
import { Encryption } from './encryption.ts';
import { checkFleets, Fleets, Models } from './fleets.ts';
import { InstanceTypes } from './gpu-types.ts';
import { Keys } from './keys.ts';
import { checkLaws } from './laws.ts';
import { Limits } from './limits.ts';
import { checkMachineImages, MachineImages } from './machine-images.ts';
import { Name } from './names.ts';
import { Nats } from './nats.ts';
import { checkZones, Network } from './network.ts';
import { checkPlanner, Planner } from './planner.ts';
import { CHECKED, problemsOf, SettingsError } from './problems.ts';
import { Sizes } from './sizes.ts';
import { checkStackNames } from './stack-names.ts';

/** Which of the two shapes is deployed: `-c env=NAME`. */
export const ENVIRONMENTS = ['dev', 'production'] as const;

/** Choices of a deployment. Every part has a default; they are read from `infra/stator.config.ts`. */
export const Settings = z
  .strictObject({
    /** Name of the dev stack, and what the names of production's stacks begin with. */
    name: Name.default('Stator'),
    models: Models,
    fleets: Fleets,
    instanceTypes: InstanceTypes,
    machineImages: MachineImages,
    eks: Eks,
    sizes: Sizes,
    edges: Edges,
    nats: Nats,
    keys: Keys,
    limits: Limits,
    network: Network,
    planner: Planner,
    /** Images that are there already, by their addresses, instead of built ones. The entry point is `stator`. */
    images: z.strictObject({ edge: z.string().min(1).optional() }).prefault({}),
    domain: Domain.optional(),
    alarms: Alarms,
    encryption: Encryption,
    /** Days for which logs are kept, as CloudWatch has them. */
    logRetentionDays: z.literal([1, 3, 5, 7, 14, 30, 60, 90, 180, 365]).default(30),
    /** Keeps tables, buckets and keys when production's stacks are deleted. */
    retain: z.boolean().default(true),
  })
  .superRefine((given, context) => {
    checkFleets(given, context);
    checkMachineImages(given, context);
    checkEks(given, context);
    checkLaws(given, context);
    checkStackNames(given, context);
    checkWanted(given, context);
    checkEdges(given, context);
    checkZones(given, context);
    checkNames(given, context);
    checkPlanner(given, context);
  });

/** The settings as they count, defaults filled in. */
export type Settings = z.infer<typeof Settings>;

/** Export of `stator.config.ts`. */
export type StatorConfig = z.input<typeof Settings>;

/**
 * Checks what a configuration file exports, before any construct exists.
 * @throws SettingsError with one line that names each wrong key by its path and says what it may be.
 */
export function readSettings(given: unknown, file: string): Settings {
  const parsed = Settings.safeParse(given ?? {}, CHECKED);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(Settings, parsed.error);
  throw new SettingsError(`${file}: ${problems.join('; ')}`);
}
