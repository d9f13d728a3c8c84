import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fullDiff, ResourceImpact } from '@aws-cdk/cloudformation-diff';
import { describe, expect, it } from 'vitest';
import { devTemplate, productionTemplates } from './templates.ts';

/** Templates of the last release. `STATOR_TEST_RELEASE=1` writes them anew: when a release is made, and only then. */
const FOLDER = 'test/fixtures/infra/release';
/** Made anew by every release, on purpose: what was before stays as long as it is used. */
const OF_A_RELEASE = ['AWS::Lambda::Version', 'AWS::ApiGateway::Deployment', 'AWS::ECS::TaskDefinition'];
/** What the next release gives up on purpose; empty it when a release is made. */
const GIVEN_UP = ['StoreKeysTableC285B9E1']; // its successor can have replicas in other regions, which no table becomes in place
const LOSSES = [
  ResourceImpact.WILL_REPLACE,
  ResourceImpact.MAY_REPLACE,
  ResourceImpact.WILL_DESTROY,
  ResourceImpact.WILL_ORPHAN,
];

function templates(): Readonly<Record<string, object>> {
  const stacks = Object.entries(productionTemplates()).map(([name, template]) => [name, template.toJSON()] as const);
  return { Dev: devTemplate().toJSON(), ...Object.fromEntries(stacks) };
}

/** Resources that would be lost by deploying `after` over `before`, and how. */
function lossesOf(before: object, after: object): readonly string[] {
  const losses: string[] = [];
  fullDiff(before, after).resources.forEachDifference((id, change) => {
    const type = change.oldResourceType ?? change.newResourceType ?? '';
    if (GIVEN_UP.includes(id)) return;
    if (!OF_A_RELEASE.includes(type) && LOSSES.includes(change.changeImpact)) {
      losses.push(`${id} (${type}): ${change.changeImpact}`);
    }
  });
  return losses;
}

const now = templates();
if (process.env.STATOR_TEST_RELEASE === '1') {
  for (const [name, template] of Object.entries(now)) {
    writeFileSync(join(FOLDER, `${name}.json`), `${JSON.stringify(template)}\n`);
  }
}

describe('deploying over the last release', () => {
  it('knows a template of each of its stacks', () => {
    expect(readdirSync(FOLDER).sort()).toEqual(['Data.json', 'Dev.json', 'Edge.json', 'Fleet-mock.json']);
  });

  it.each(readdirSync(FOLDER))('replaces and deletes nothing of %s', (file) => {
    const before = JSON.parse(readFileSync(join(FOLDER, file), 'utf8')) as object;
    expect(lossesOf(before, now[file.replace('.json', '')] ?? {})).toEqual([]);
  });

  it('would notice a table under another key, and a secret that is gone', () => {
    const before = now.Data ?? {};
    const changed = structuredClone(before) as {
      Resources: Record<string, { Type: string; Properties: { KeySchema: { AttributeName: string }[] } }>;
    };
    const [table] = Object.keys(changed.Resources).filter((id) => id.startsWith('StoreResponsesTable'));
    const [secret] = Object.keys(changed.Resources).filter((id) => id.startsWith('StoreSecretsIdSecret'));
    changed.Resources[table!]!.Properties.KeySchema[0]!.AttributeName = 'other';
    delete changed.Resources[secret!];
    expect(lossesOf(before, changed).toSorted()).toEqual([
      `${table} (AWS::DynamoDB::Table): ${ResourceImpact.WILL_REPLACE}`,
      `${secret} (AWS::SecretsManager::Secret): ${ResourceImpact.WILL_ORPHAN}`, // kept, but no longer the fleet's
    ]);
  });
});
