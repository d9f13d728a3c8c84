import { expect, it } from 'vitest';
import { limitsPage } from '../../support/docs/limits-page.ts';

it('docs/limits.md is up to date (npm run docs)', async () => {
  await expect(limitsPage()).toMatchFileSnapshot('../../../docs/limits.md');
});
