import axe from 'axe-core';
import { type Browser, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll } from 'vitest';

/** Program of the browser; empty if there is none. */
export const CHROMIUM = process.env.STATOR_TEST_CHROMIUM_BIN ?? '';

export interface PageOptions {
  /** @default 'light' */
  readonly colorScheme?: 'light' | 'dark';
  /** Width of the window in pixels. @default 1280 */
  readonly width?: number;
  /** Headers of all requests. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A page in a browser, with what went wrong in it. */
export interface WatchedPage {
  readonly page: Page;
  /** Errors of the page's code, of its console and of its content security policy. */
  readonly faults: readonly string[];
  /** Paths that the page has asked for, in order. */
  readonly requests: readonly string[];
  /** Returns what axe finds on the page as it is: rule and element, one line each. */
  audit(): Promise<readonly string[]>;
}

/** Returns a function that opens pages in one browser, which closes after the last test of the suite. */
export function useBrowser(): (url: string, options?: PageOptions) => Promise<WatchedPage> {
  let browser: Browser | undefined;
  beforeAll(async () => {
    browser = await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox', '--disable-gpu'] });
    await browser.newPage(); // without any page the browser would end
  });
  afterAll(() => browser?.close());
  return async (url, { colorScheme = 'light', width = 1280, headers = {} } = {}) => {
    if (browser === undefined) throw new Error('the browser has not started');
    const viewport = { width, height: 900 };
    const context = await browser.newContext({ colorScheme, viewport, extraHTTPHeaders: { ...headers } });
    return watch(await context.newPage(), url);
  };
}

const REPORT_VIOLATIONS = `addEventListener('securitypolicyviolation', (event) => {
  console.error('policy: ' + event.violatedDirective + ' ' + event.blockedURI);
});`;

async function watch(page: Page, url: string): Promise<WatchedPage> {
  const faults: string[] = [];
  const requests: string[] = [];
  page.on('pageerror', (error) => void faults.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (message.type() === 'error') faults.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => void requests.push(request.url().replace(new URL(url).origin, '')));
  await page.addInitScript({ content: REPORT_VIOLATIONS });
  await page.goto(url);
  return { page, faults, requests, audit: () => audit(page) };
}

async function audit(page: Page): Promise<readonly string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate<axe.AxeResults>('axe.run(document, { preload: false })');
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html} ${failureSummary}`),
  );
}
