// SPDX-License-Identifier: Apache-2.0
// Evaluated in a loaded report by browser_test.py: what is wrong with the page, and its text.
(() => {
  const problems = [];
  const all = selector => [...document.querySelectorAll(selector)];
  const is_seen = e => e.getClientRects().length > 0 && !e.closest('[hidden]');
  const brief = e => `${e.tagName}.${e.getAttribute('class')} "${e.textContent.trim().slice(0, 40)}"`;

  const root = document.documentElement;
  if (root.scrollWidth > innerWidth) {
    const wide = all('body *').filter(e => !e.closest('.scroll, pre, svg') &&
                                           e.getBoundingClientRect().right > innerWidth + 1);
    const names = wide.slice(0, 3).map(e => `${e.tagName}.${e.className}`);
    problems.push(`overflows by ${root.scrollWidth - innerWidth} px: ${names}`);
  }

  // The document: language, title, one of each landmark, headings in order, ids that are one's own.
  if (root.lang !== 'en') problems.push('no language');
  if (!document.title.trim()) problems.push('no title');
  for (const landmark of ['header', 'main', 'footer', 'nav', 'h1']) {
    if (all(landmark).length !== 1) problems.push(`${all(landmark).length} of ${landmark}`);
  }
  for (const child of document.body.children) {
    const known = child.matches('header, main, footer, script, .skip, [role=status]');
    if (!known) problems.push(`outside of every landmark: ${brief(child)}`);
  }
  let level = 0;
  for (const heading of all('h1, h2, h3, h4')) {
    const next = +heading.tagName[1];
    if (next > level + 1) problems.push(`heading ${level} -> ${next} at "${heading.textContent}"`);
    level = next;
  }
  const ids = new Set();
  for (const element of all('[id]')) {
    if (ids.has(element.id)) problems.push(`two elements of id ${element.id}`);
    ids.add(element.id);
  }
  for (const link of all('a[href^="#"]')) {
    if (!ids.has(link.hash.slice(1))) problems.push(`a link to nothing: ${link.hash}`);
  }
  for (const [attribute, one] of [['aria-labelledby', false], ['aria-describedby', false],
                                  ['for', true]]) {
    for (const element of all(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(one ? /$^/ : /\s+/)) {
        if (!ids.has(id)) problems.push(`${attribute} of nothing: ${id}`);
      }
    }
  }

  // Names: of controls, pictures, groups, landmarks that occur more than once, tables.
  const name_of = e => (e.getAttribute('aria-label') ||
    (e.getAttribute('aria-labelledby') || '').split(/\s+/).filter(Boolean).map(
      id => document.getElementById(id)?.textContent).join(' ') || '').trim();
  for (const control of all('button, a, input, select, summary')) {
    if (!name_of(control) && !control.textContent.trim()) problems.push(`no name: ${brief(control)}`);
  }
  for (const svg of all('svg')) {
    const hidden = svg.getAttribute('aria-hidden') === 'true';
    if (!hidden && !name_of(svg)) problems.push('svg without a label');
  }
  for (const group of all('[role=group], [role=region], nav, section')) {
    if (!name_of(group)) problems.push(`group without a label: ${brief(group)}`);
  }
  const landmarks = all('section, nav, [role=region]').map(name_of);
  for (const name of new Set(landmarks)) {
    if (landmarks.filter(other => other === name).length > 1) problems.push(`landmarks: ${name}`);
  }
  for (const table of all('table')) {
    if (!table.caption?.textContent.trim()) problems.push('table without a caption');
    if (!table.querySelector('th[scope]') && !table.matches('[role=grid]')) {
      problems.push('table without headers');
    }
    for (const header of table.querySelectorAll('th')) {
      if (!header.textContent.trim() && !name_of(header)) problems.push('header without a text');
    }
  }
  const roles = new Set(['group', 'grid', 'img', 'status', 'table', 'row', 'rowgroup', 'cell',
                         'columnheader', 'rowheader']);
  const aria = new Set(['aria-label', 'aria-labelledby', 'aria-hidden', 'aria-current',
                        'aria-valuetext']);
  for (const element of all('*')) {
    for (const {name, value} of element.attributes) {
      if (/^on|^style$/.test(name)) problems.push(`attribute ${name}`);
      if (name === 'role' && !roles.has(value)) problems.push(`role ${value}`);
      if (name.startsWith('aria-') && (!aria.has(name) || !value.trim())) {
        problems.push(`${name}="${value}"`);
      }
    }
    if (element.tabIndex > 0) problems.push(`tab order: ${brief(element)}`);
  }
  // What scrolls is reached by the keyboard: itself, or something in it.
  for (const area of all('.scroll, pre').filter(is_seen)) {
    const scrolls = area.scrollWidth > area.clientWidth + 1;
    if (scrolls && area.tabIndex !== 0 && !area.querySelector('[tabindex="0"], a, button')) {
      problems.push(`scrolls without the keyboard: ${brief(area)}`);
    }
  }
  for (const button of all('button').filter(is_seen)) {
    const box = button.getBoundingClientRect();
    if (box.width < 24 || box.height < 24) problems.push(`small: ${brief(button)}`);
  }

  const loading = all('script, style, img, iframe, link, object, embed').map(e => e.tagName).sort();
  if (loading.join() !== 'SCRIPT,STYLE') problems.push(`elements: ${loading}`);
  if (document.title === 'owned') problems.push('a script from the record ran');

  // Contrast as WCAG 2 defines it, of each text against the nearest background.
  const components = color => color.match(/[\d.]+/g).map(Number);
  const luminance = color => {
    const [r, g, b] = color.slice(0, 3).map(v => v / 255).map(
      v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const backgrounds = new Map();
  const background_of = element => {
    if (!element) return [255, 255, 255];
    if (!backgrounds.has(element)) {
      const color = components(getComputedStyle(element).backgroundColor);
      backgrounds.set(element, color.length < 4 || color[3] > 0 ? color
                                                                : background_of(element.parentElement));
    }
    return backgrounds.get(element);
  };
  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim()) continue;
    if (['script', 'style', 'title'].includes(element.tagName.toLowerCase())) continue;
    const style = getComputedStyle(element);
    const text = components(element.closest('svg') ? style.fill : style.color);
    const back = background_of(element);
    const [high, low] = [luminance(text), luminance(back)].sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    const what = `${element.tagName}.${element.getAttribute('class')}: ${text} on ${back}`;
    if (contrast < 4.5 && !seen.has(what)) {
      seen.add(what);
      problems.push(`contrast ${contrast.toFixed(2)} of ${what}`);
    }
  }
  return JSON.stringify({
    problems,
    text: document.body.innerText + document.body.textContent,
  });
})()
