import { fieldsOf } from '../aws-answers.ts';
import { resourcesOf } from '../deploy-templates.ts';
import { PRICES, type PricedPart, pricePart } from './prices.ts';

/** Key of the facts about an image for machines in the template of its pipeline. */
const FACTS = 'stator:machine-image';
/** Builds of a month; without a schedule there are those that someone starts. */
const BUILDS_A_MONTH: Readonly<Record<string, number>> = { daily: 30.4, weekly: 4.35, monthly: 1 };
/** Hours that machines run for one build, by estimate: to pull and unpack, to write the snapshot, and to test. */
const BUILD_HOURS = 1;

/** Prices the images for machines that templates build: their snapshots, and builds by schedule. */
export function priceMachineImages(templates: readonly unknown[]): readonly PricedPart[] {
  return resourcesOf(templates).flatMap(([, { Metadata }]) => {
    const facts = fieldsOf(Metadata)[FACTS];
    if (facts === undefined) return [];
    const { name, keep, filledGib, builderHourUsd, rebuild } = fieldsOf(facts);
    const builds = BUILDS_A_MONTH[String(rebuild)] ?? 0;
    const parts = [
      pricePart(
        `snapshots of machine image ${String(name)}, at most`,
        Number(keep),
        Number(filledGib) * PRICES.snapshotGibMonth,
      ),
      pricePart(`builds of machine image ${String(name)}`, builds, BUILD_HOURS * Number(builderHourUsd)),
    ];
    return parts.filter(({ count }) => count > 0);
  });
}
