// SPDX-License-Identifier: Apache-2.0
#include "faultline/properties/run_property.hpp"

#include <sstream>
#include <unordered_map>

namespace faultline::properties::detail {
namespace {

/// Says nothing: what came of the property is in its result.
class SilentListener : public rc::detail::TestListener {
 public:
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
};

}  // namespace

PropertyResult read_result(const rc::detail::TestResult& result) {
  PropertyResult read;
  std::ostringstream message;
  rc::detail::printResultMessage(result, message);
  read.message = message.str();
  if (result.is<rc::detail::SuccessResult>()) {
    read.cases = result.get<rc::detail::SuccessResult>().numSuccess;
    // A property that ran no case has shown nothing.
    read.outcome = read.cases > 0 ? PropertyOutcome::held : PropertyOutcome::broken;
  } else if (result.is<rc::detail::FailureResult>()) {
    const auto& failure = result.get<rc::detail::FailureResult>();
    read.outcome = PropertyOutcome::falsified;
    read.cases = failure.numSuccess;
    read.description = failure.description;
    read.counterexample = failure.counterExample;
  } else if (result.is<rc::detail::GaveUpResult>()) {
    const auto& gave_up = result.get<rc::detail::GaveUpResult>();
    read.outcome = PropertyOutcome::gave_up;
    read.cases = gave_up.numSuccess;
    read.description = gave_up.description;
  } else {
    read.description = result.get<rc::detail::Error>().description;
  }
  return read;
}

rc::detail::TestResult run_apart(const rc::detail::Property& property,
                                 const PropertySettings& settings) {
  rc::detail::TestParams parameters;
  parameters.seed = settings.seed;
  parameters.maxSuccess = settings.cases;
  parameters.disableShrinking = !settings.shrink;
  SilentListener listener;
  // An empty map: RC_PARAMS' reproduce would replace the run by a success in no case at all.
  const std::unordered_map<std::string, rc::detail::Reproduce> nothing_to_reproduce;
  return rc::detail::checkProperty(property, rc::detail::TestMetadata{}, parameters, listener,
                                   nothing_to_reproduce);
}

}  // namespace faultline::properties::detail
