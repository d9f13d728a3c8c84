import * as z from 'zod';

/*
 * Answers of /console/api, by the pages that show them. The OpenAPI document shows these schemas; the page is compiled
 * against their types.
 */

export const count = z.int().min(0);
